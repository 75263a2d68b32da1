"""What the machine gives: cores, memory, file systems; files that survive a crash."""
