"""What people see: segments in colour, traces, progress."""
