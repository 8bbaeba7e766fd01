"""What evaluate and bench both write: tables, plots, a page."""
