"""The directory on a node that a copy goes to: safe, locked, and known to be whole or not."""
