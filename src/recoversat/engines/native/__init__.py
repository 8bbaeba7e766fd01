"""The engine in C++ (`csrc/`): int8 models on a CPU, each sentence on one core."""
