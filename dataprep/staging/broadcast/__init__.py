"""Every byte read once, and sent to all nodes through MPI."""
