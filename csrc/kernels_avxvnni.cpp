// AVX2 with VNNI on 256 bits: the same source with other flags.
#include "kernels_avx2.cpp"
