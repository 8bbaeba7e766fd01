"""The processes: the one people start, and those that translate."""
