"""Resumable roads: fit, distill, sweep, files."""
