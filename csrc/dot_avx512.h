// Products with vpdpbusd on 512 bits: u8 rows times two tiles of s8 weights.
#pragma once

#include "vector.h"

namespace recoversat {
namespace {

constexpr int VNNI_ROWS = 10;    // rows that share the loaded weights; their sums fill the registers
constexpr int VNNI_COLUMNS = 32;
constexpr int PREFETCHING_ROWS = 5;  // with fewer rows the processor waits for weights anyway

using DotKernel = void (*)(const uint8_t* rows, const int8_t* weights, int in, const int32_t* start, size_t next,
                           int32_t* sums);

// Integer sums are exact in any order, so few rows add up P partial sums each, which do not wait for each other.
template <int R, int P>
void dot_avx512(const uint8_t* rows, const int8_t* weights, int in, const int32_t* start, size_t next, int32_t* sums) {
  __m512i left[R][P], right[R][P];
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int p = 1; p < P; ++p) left[r][p] = right[r][p] = _mm512_setzero_si512();
    left[r][0] = _mm512_loadu_si512(start), right[r][0] = _mm512_loadu_si512(start + LANES);
  }
  const int8_t* second_tile = weights + size_t(in) * LANES;
  for (int i = 0; i < in; i += P * GROUP, weights += P * 64, second_tile += P * 64) {
    UNROLL
    for (int p = 0; p < P; ++p) {
      if (R >= PREFETCHING_ROWS) {
        _mm_prefetch(reinterpret_cast<const char*>(weights + next), _MM_HINT_T1);
        _mm_prefetch(reinterpret_cast<const char*>(second_tile + next), _MM_HINT_T1);
      }
      __m512i first = _mm512_loadu_si512(weights + 64 * p), second = _mm512_loadu_si512(second_tile + 64 * p);
      if (R > 1) __asm__("" : "+v"(first), "+v"(second));  // load once, not for every row
      UNROLL
      for (int r = 0; r < R; ++r) {
        int32_t four;
        std::memcpy(&four, rows + size_t(r) * in + i + p * GROUP, sizeof four);
        left[r][p] = _mm512_dpbusd_epi32(left[r][p], _mm512_set1_epi32(four), first);
        right[r][p] = _mm512_dpbusd_epi32(right[r][p], _mm512_set1_epi32(four), second);
      }
    }
  }
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int p = 1; p < P; ++p) {
      left[r][0] = _mm512_add_epi32(left[r][0], left[r][p]);
      right[r][0] = _mm512_add_epi32(right[r][0], right[r][p]);
    }
    _mm512_storeu_si512(sums + BLOCK * r, left[r][0]);
    _mm512_storeu_si512(sums + BLOCK * r + LANES, right[r][0]);
  }
}

// One row waits for weights only: they are read one after the other, as the processor prefetches them.
void dot_one_avx512(const uint8_t* row, const int8_t* weights, int in, const int32_t* start, size_t, int32_t* sums) {
  constexpr int P = 8;
  for (int tile = 0; tile < VNNI_COLUMNS; tile += LANES) {
    __m512i total[P];
    UNROLL
    for (int p = 1; p < P; ++p) total[p] = _mm512_setzero_si512();
    total[0] = _mm512_loadu_si512(start + tile);
    for (int i = 0; i < in; i += P * GROUP, weights += P * 64) {
      UNROLL
      for (int p = 0; p < P; ++p) {
        int32_t four;
        std::memcpy(&four, row + i + p * GROUP, sizeof four);
        total[p] = _mm512_dpbusd_epi32(total[p], _mm512_set1_epi32(four), _mm512_loadu_si512(weights + 64 * p));
      }
    }
    UNROLL
    for (int p = 1; p < P; ++p) total[0] = _mm512_add_epi32(total[0], total[p]);
    _mm512_storeu_si512(sums + tile, total[0]);
  }
}

const DotKernel DOT_AVX512[VNNI_ROWS + 1] = {
    nullptr,          dot_one_avx512,   dot_avx512<2, 2>, dot_avx512<3, 2>, dot_avx512<4, 2>, dot_avx512<5, 1>,
    dot_avx512<6, 1>, dot_avx512<7, 1>, dot_avx512<8, 1>, dot_avx512<9, 1>, dot_avx512<10, 1>};

}  // namespace
}  // namespace recoversat
