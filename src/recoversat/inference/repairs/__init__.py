"""Repairs of translations, in the order in which they act."""
