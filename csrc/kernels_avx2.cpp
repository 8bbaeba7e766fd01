// AVX2 and FMA; compiled a second time for processors that have VNNI on 256 bits.
//
// Without VNNI rows are 16 bits wide and weights are widened to 16 bits for vpmaddwd. vpmaddubsw would be faster, but adds
// two products in 16 bits, which overflow. A vector holds 4 columns of 4 inputs, so every column has two partial sums.
#include "vector.h"

namespace recoversat {
namespace {

constexpr int MAX_ROWS = 6, BLOCK = LANES;
constexpr int PREFETCHING_ROWS = 5;  // with fewer rows the processor waits for weights anyway

using DotKernel = void (*)(const uint8_t* rows, const int8_t* weights, int in, const int32_t* start, size_t next,
                           int32_t* sums);

INLINE void prefetch(const int8_t* weights) { _mm_prefetch(reinterpret_cast<const char*>(weights), _MM_HINT_T1); }
INLINE const __m256i* as_vectors(const void* from) { return static_cast<const __m256i*>(from); }
INLINE __m256i* as_vectors(void* to) { return static_cast<__m256i*>(to); }

#ifdef __AVXVNNI__

// Few rows add up P partial sums each, which do not wait for each other.
template <int R, int P>
void dot(const uint8_t* rows, const int8_t* weights, int in, const int32_t* start, size_t next, int32_t* sums) {
  __m256i left[R][P], right[R][P];
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int p = 1; p < P; ++p) left[r][p] = right[r][p] = _mm256_setzero_si256();
    left[r][0] = _mm256_loadu_si256(as_vectors(start)), right[r][0] = _mm256_loadu_si256(as_vectors(start + 8));
  }
  for (int i = 0; i < in; i += P * GROUP, weights += P * 64) {
    UNROLL
    for (int p = 0; p < P; ++p) {
      if (R >= PREFETCHING_ROWS) prefetch(weights + next);
      const __m256i first = _mm256_loadu_si256(as_vectors(weights + 64 * p));
      const __m256i second = _mm256_loadu_si256(as_vectors(weights + 64 * p + 32));
      UNROLL
      for (int r = 0; r < R; ++r) {
        int32_t four;
        std::memcpy(&four, rows + size_t(r) * in + i + p * GROUP, sizeof four);
        left[r][p] = _mm256_dpbusd_avx_epi32(left[r][p], _mm256_set1_epi32(four), first);
        right[r][p] = _mm256_dpbusd_avx_epi32(right[r][p], _mm256_set1_epi32(four), second);
      }
    }
  }
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int p = 1; p < P; ++p) {
      left[r][0] = _mm256_add_epi32(left[r][0], left[r][p]);
      right[r][0] = _mm256_add_epi32(right[r][0], right[r][p]);
    }
    _mm256_storeu_si256(as_vectors(sums + BLOCK * r), left[r][0]);
    _mm256_storeu_si256(as_vectors(sums + BLOCK * r + 8), right[r][0]);
  }
}

const DotKernel DOT[MAX_ROWS + 1] = {nullptr,   dot<1, 4>, dot<2, 2>, dot<3, 2>, dot<4, 1>, dot<5, 1>, dot<6, 1>};

#else

// Add up the products of R rows with V vectors of 4 columns each; a tile has four of them.
template <int R, int V, bool PREFETCH = false>
INLINE void dot_part(const uint8_t* rows, const int8_t* weights, int in, size_t next, int32_t* sums) {
  __m256i total[R][V];
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int v = 0; v < V; ++v) total[r][v] = _mm256_setzero_si256();
  }
  for (int i = 0; i < in; i += GROUP, weights += 64) {
    if (PREFETCH) prefetch(weights + next);
    __m256i column[V];
    UNROLL
    for (int v = 0; v < V; ++v)
      column[v] = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(weights + 16 * v)));
    UNROLL
    for (int r = 0; r < R; ++r) {
      int64_t four;
      std::memcpy(&four, rows + 2 * (size_t(r) * in + i), sizeof four);
      const __m256i inputs = _mm256_set1_epi64x(four);
      UNROLL
      for (int v = 0; v < V; ++v) {
        const __m256i product = _mm256_madd_epi16(inputs, column[v]);
        // sums stay where they are, row by row: the inputs of all rows would not fit into the registers
        __asm__ volatile("vpaddd %1, %0, %0" : "+x"(total[r][v]) : "x"(product));
      }
    }
  }
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int v = 0; v < V; v += 2) {
      const __m256i pairs = _mm256_hadd_epi32(total[r][v], total[r][v + 1]);
      _mm256_storeu_si256(as_vectors(sums + BLOCK * r + 4 * v), _mm256_permute4x64_epi64(pairs, 0xD8));
    }
  }
}

template <int R>
void dot(const uint8_t* rows, const int8_t* weights, int in, const int32_t*, size_t next, int32_t* sums) {
  if (R <= 2) {
    dot_part<R, 4>(rows, weights, in, next, sums);
  } else {  // the sums of a whole tile would not fit into the registers
    dot_part<R, 2, R >= PREFETCHING_ROWS>(rows, weights, in, next, sums);
    dot_part<R, 2>(rows, weights + 32, in, next, sums + 8);
  }
}

const DotKernel DOT[MAX_ROWS + 1] = {nullptr, dot<1>, dot<2>, dot<3>, dot<4>, dot<5>, dot<6>};

#endif

struct Products {
  static constexpr int columns = BLOCK, most = MAX_ROWS;
  int in;

  Products(const Linear& map, int) : in(map.in) {}
  INLINE const int32_t* sums(const uint8_t* rows, int n, const int8_t* weights, int, const int32_t* start, size_t next,
                             int32_t* buffer) const {
    DOT[n](rows, weights, in, start, next, buffer);
    return buffer;
  }
};

}  // namespace
}  // namespace recoversat

#include "layers.h"

namespace recoversat {
#ifdef __AVXVNNI__
DEFINE_KIT(KIT_AVX_VNNI, "avx-vnni");
#else
DEFINE_KIT(KIT_AVX2_FMA, "avx2");
#endif
}  // namespace recoversat
