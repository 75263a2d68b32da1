"""Looking at a finished data set: what is odd about it, a page that shows it, a card."""
