"""A trained model for other engines."""
