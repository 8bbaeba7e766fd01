"""Other people's systems."""
