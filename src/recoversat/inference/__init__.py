"""From a request to its translations."""
