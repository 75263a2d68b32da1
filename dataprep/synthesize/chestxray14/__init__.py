"""A made-up ChestX-ray14."""
