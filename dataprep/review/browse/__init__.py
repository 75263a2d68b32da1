"""``dataprep browse``: a page on this machine that shows a finished set, and takes marks."""
