// Plain C++ for every processor, with SSE2 where it is certain; the inputs of a product are 16 bits wide.
#include "vector.h"

namespace recoversat {
namespace {

constexpr int MAX_ROWS = 4, BLOCK = LANES;

#ifdef __SSE2__  // which every x86-64 processor has

// Add up the products of R rows with V times 4 columns; every column has two partial sums.
template <int R, int V>
INLINE void dot_part(const uint8_t* rows, const int8_t* weights, int in, int32_t* sums) {
  __m128i total[R][2 * V];
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int v = 0; v < 2 * V; ++v) total[r][v] = _mm_setzero_si128();
  }
  for (int i = 0; i < in; i += GROUP, weights += 64) {
    __m128i column[2 * V];
    UNROLL
    for (int v = 0; v < V; ++v) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights + 16 * v));
      column[2 * v] = _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
      column[2 * v + 1] = _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8);
    }
    UNROLL
    for (int r = 0; r < R; ++r) {
      const auto* four = reinterpret_cast<const double*>(rows + 2 * (size_t(r) * in + i));
      const __m128i inputs = _mm_castpd_si128(_mm_load1_pd(four));
      UNROLL
      for (int v = 0; v < 2 * V; ++v) total[r][v] = _mm_add_epi32(total[r][v], _mm_madd_epi16(inputs, column[v]));
    }
  }
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int v = 0; v < 2 * V; v += 2) {
      const __m128 a = _mm_castsi128_ps(total[r][v]), b = _mm_castsi128_ps(total[r][v + 1]);
      const __m128i even = _mm_castps_si128(_mm_shuffle_ps(a, b, 0x88)), odd = _mm_castps_si128(_mm_shuffle_ps(a, b, 0xDD));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + BLOCK * r + 2 * v), _mm_add_epi32(even, odd));
    }
  }
}

// Multiply with a tile; the sums of R rows and V times 4 columns stay in registers.
template <int R, int V>
void dot(const uint8_t* rows, const int8_t* weights, int in, int32_t* sums) {
  for (int part = 0; part < 4; part += V) dot_part<R, V>(rows, weights + 16 * part, in, sums + 4 * part);
}

constexpr void (*DOT[MAX_ROWS + 1])(const uint8_t*, const int8_t*, int, int32_t*) = {nullptr, dot<1, 4>, dot<2, 2>,
                                                                                     dot<3, 1>, dot<4, 1>};

INLINE void dot(const uint8_t* rows, int n, const int8_t* weights, int in, int32_t* sums) {
  DOT[n](rows, weights, in, sums);
}

#else

void dot(const uint8_t* rows, int n, const int8_t* weights, int in, int32_t* sums) {
  for (int r = 0; r < n; ++r, sums += BLOCK) {
    std::memset(sums, 0, BLOCK * sizeof *sums);
    for (int i = 0; i < in; i += GROUP, rows += GROUP * sizeof(int16_t)) {
      int16_t inputs[GROUP];
      std::memcpy(inputs, rows, sizeof inputs);
      const int8_t* group = weights + size_t(i) * LANES;
      for (int column = 0; column < LANES; ++column)
        for (int j = 0; j < GROUP; ++j) sums[column] += inputs[j] * group[GROUP * column + j];
    }
  }
}

#endif

struct Products {
  static constexpr int columns = BLOCK, most = MAX_ROWS;
  int in;

  Products(const Linear& map, int) : in(map.in) {}
  const int32_t* sums(const uint8_t* rows, int n, const int8_t* weights, int, const int32_t*, size_t,
                      int32_t* buffer) const {
    dot(rows, n, weights, in, buffer);  // rows lack the zero point: sums begin with 0
    return buffer;
  }
};

}  // namespace
}  // namespace recoversat

#include "layers.h"

namespace recoversat {
DEFINE_KIT(KIT_PLAIN_CPP, "plain");
}
