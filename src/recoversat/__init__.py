"""RecoverSAT."""
