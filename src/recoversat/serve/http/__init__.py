"""What travels over HTTP: requests, answers, refusals, and the page."""
