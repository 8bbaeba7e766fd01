"""Numbers one can believe: quality, errors, steps, confidence, and the reports that show them."""
