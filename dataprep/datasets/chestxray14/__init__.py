"""NIH ChestX-ray14."""
