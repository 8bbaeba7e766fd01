// The AMX kit on emulated tiles, for tests.
#define EMULATE_AMX
#include "kernels_amx.cpp"
