"""Files that appear whole or not at all, model folders, the built-in model."""
