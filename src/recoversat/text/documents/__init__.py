"""Documents: one module a format."""
