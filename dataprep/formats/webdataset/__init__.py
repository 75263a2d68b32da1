"""WebDataset, tar archives of samples: what we write, and what others have packed."""
