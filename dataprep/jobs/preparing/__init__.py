"""Making a data set of raw images, or adding what is new to one."""
