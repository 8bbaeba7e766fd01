"""The GPU engine: captured CUDA graphs."""
