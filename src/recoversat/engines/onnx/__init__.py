"""The CPU engine: ONNX Runtime, no torch."""
