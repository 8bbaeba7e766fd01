"""Quality and speed of systems, and what is told of them."""
