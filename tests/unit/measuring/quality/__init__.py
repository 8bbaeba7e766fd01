"""A package, so that test files may be named after the modules they test."""
