"""The engine in C++ (`native.cpp`): int8 models, each sentence on one core; `recoversat build` compiles it."""
