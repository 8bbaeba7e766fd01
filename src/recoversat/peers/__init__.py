"""Other people's engines, for comparison."""
