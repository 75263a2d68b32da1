"""What lies in an output directory: whose it is, what is finished, how far the rest is."""
