// Vectors of 16 floats as wide as the flags of a kit allow. All variants return the same bits: multiply-adds are fused
// (in software where there is no instruction), sums over lanes fold halves onto each other, max(a, b) is a > b ? a : b.
//
// Kits include this header with different flags, so everything is in an anonymous namespace and nothing of std:: is
// instantiated: the linker would share such functions with code for other processors.
#pragma once

#include <cstdint>
#include <cstring>

#include "kit.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define INLINE inline __attribute__((always_inline))
#define FLAT __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

namespace recoversat {
namespace {

constexpr float INFINITE = __builtin_inff();

#if defined(__AVX512F__)

#define KIT_AVX512
struct Vec {
  __m512 v;
};

INLINE Vec load(const float* from) { return {_mm512_loadu_ps(from)}; }
INLINE void store(float* to, Vec a) { _mm512_storeu_ps(to, a.v); }
INLINE Vec set(float value) { return {_mm512_set1_ps(value)}; }
INLINE Vec from_ints(const int32_t* from) { return {_mm512_cvtepi32_ps(_mm512_loadu_si512(from))}; }
INLINE Vec from_bytes(const int8_t* from) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))))};
}
INLINE Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
INLINE Vec sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
INLINE Vec mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
INLINE Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
INLINE Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
INLINE Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
INLINE bool any_greater(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ) != 0; }

// Replace all lanes from `first` on.
INLINE Vec replace_from(Vec a, int first, float value) {
  const __mmask16 hidden = __mmask16(first >= LANES ? 0 : 0xFFFFu << (first < 0 ? 0 : first));
  return {_mm512_mask_blend_ps(hidden, a.v, _mm512_set1_ps(value))};
}

// Round to whole numbers and return them, and 2 to their power.
INLINE Vec whole_and_power(Vec a, Vec& power) {
  const __m512i whole = _mm512_cvtps_epi32(a.v);
  power.v = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(127)), 23));
  return {_mm512_cvtepi32_ps(whole)};
}

constexpr RowFormat FORMAT = RowFormat::U8;
INLINE void store_rounded(Vec a, int zero, uint8_t* to) {
  const __m512i values = _mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(zero));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(values));
}

INLINE __m256 lower(Vec a) { return _mm512_castps512_ps256(a.v); }
INLINE __m256 upper(Vec a) { return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(a.v), 1)); }

#elif defined(__AVX2__)

#define KIT_AVX2
struct Vec {
  __m256 a, b;
};

INLINE Vec load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
INLINE void store(float* to, Vec a) { _mm256_storeu_ps(to, a.a), _mm256_storeu_ps(to + 8, a.b); }
INLINE Vec set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
INLINE Vec from_ints(const int32_t* from) {
  const auto* at = reinterpret_cast<const __m256i*>(from);
  return {_mm256_cvtepi32_ps(_mm256_loadu_si256(at)), _mm256_cvtepi32_ps(_mm256_loadu_si256(at + 1))};
}
INLINE Vec from_bytes(const int8_t* from) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(all, all)))};
}
INLINE Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.a, b.a), _mm256_add_ps(a.b, b.b)}; }
INLINE Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.a, b.a), _mm256_sub_ps(a.b, b.b)}; }
INLINE Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.a, b.a), _mm256_mul_ps(a.b, b.b)}; }
INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b)}; }
INLINE Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.a, b.a, c.a), _mm256_fnmadd_ps(a.b, b.b, c.b)}; }
INLINE Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.a, b.a), _mm256_max_ps(a.b, b.b)}; }
INLINE Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.a, b.a), _mm256_min_ps(a.b, b.b)}; }
INLINE bool any_greater(Vec a, Vec b) {
  const __m256 first = _mm256_cmp_ps(a.a, b.a, _CMP_GT_OQ), second = _mm256_cmp_ps(a.b, b.b, _CMP_GT_OQ);
  return _mm256_movemask_ps(_mm256_or_ps(first, second)) != 0;
}
INLINE Vec replace_from(Vec a, int first, float value) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), last = _mm256_set1_epi32(first - 1);
  const __m256 other = _mm256_set1_ps(value);
  const __m256i hidden = _mm256_cmpgt_epi32(lanes, last);
  const __m256i more = _mm256_cmpgt_epi32(_mm256_add_epi32(lanes, _mm256_set1_epi32(8)), last);
  return {_mm256_blendv_ps(a.a, other, _mm256_castsi256_ps(hidden)),
          _mm256_blendv_ps(a.b, other, _mm256_castsi256_ps(more))};
}
INLINE __m256 power_of(__m256i whole) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(whole, _mm256_set1_epi32(127)), 23));
}
INLINE Vec whole_and_power(Vec a, Vec& power) {
  const __m256i first = _mm256_cvtps_epi32(a.a), second = _mm256_cvtps_epi32(a.b);
  power = {power_of(first), power_of(second)};
  return {_mm256_cvtepi32_ps(first), _mm256_cvtepi32_ps(second)};
}

#ifdef __AVXVNNI__
constexpr RowFormat FORMAT = RowFormat::U8;
#else
constexpr RowFormat FORMAT = RowFormat::S16;
#endif
INLINE void store_rounded(Vec a, int zero, uint8_t* to) {
  const __m256i mixed = _mm256_packs_epi32(_mm256_cvtps_epi32(a.a), _mm256_cvtps_epi32(a.b));
  const __m256i values = _mm256_permute4x64_epi64(mixed, 0xD8);
  if (FORMAT == RowFormat::S16) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), values);
  const __m256i raised = _mm256_add_epi16(values, _mm256_set1_epi16(int16_t(zero)));
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(raised), _mm256_extracti128_si256(raised, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

INLINE __m256 lower(Vec a) { return a.a; }
INLINE __m256 upper(Vec a) { return a.b; }

#elif defined(__ARM_FEATURE_DOTPROD)

#define KIT_NEON
struct Vec {
  float32x4_t v[4];
};

#define FOUR(expression)            \
  Vec result;                       \
  UNROLL                            \
  for (int i = 0; i < 4; ++i) result.v[i] = expression; \
  return result

INLINE Vec load(const float* from) { FOUR(vld1q_f32(from + 4 * i)); }
INLINE void store(float* to, Vec a) {
  UNROLL
  for (int i = 0; i < 4; ++i) vst1q_f32(to + 4 * i, a.v[i]);
}
INLINE Vec set(float value) { FOUR(vdupq_n_f32(value)); }
INLINE Vec from_ints(const int32_t* from) { FOUR(vcvtq_f32_s32(vld1q_s32(from + 4 * i))); }
INLINE Vec from_bytes(const int8_t* from) {
  const int8x16_t all = vld1q_s8(from);
  const int16x8_t first = vmovl_s8(vget_low_s8(all)), second = vmovl_s8(vget_high_s8(all));
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(first))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(first))),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(second))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(second)))}};
}
INLINE Vec add(Vec a, Vec b) { FOUR(vaddq_f32(a.v[i], b.v[i])); }
INLINE Vec sub(Vec a, Vec b) { FOUR(vsubq_f32(a.v[i], b.v[i])); }
INLINE Vec mul(Vec a, Vec b) { FOUR(vmulq_f32(a.v[i], b.v[i])); }
INLINE Vec fma(Vec a, Vec b, Vec c) { FOUR(vfmaq_f32(c.v[i], a.v[i], b.v[i])); }
INLINE Vec fnma(Vec a, Vec b, Vec c) { FOUR(vfmsq_f32(c.v[i], a.v[i], b.v[i])); }
INLINE Vec max(Vec a, Vec b) { FOUR(vbslq_f32(vcgtq_f32(a.v[i], b.v[i]), a.v[i], b.v[i])); }
INLINE Vec min(Vec a, Vec b) { FOUR(vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i])); }
INLINE bool any_greater(Vec a, Vec b) {
  uint32x4_t any = vcgtq_f32(a.v[0], b.v[0]);
  UNROLL
  for (int i = 1; i < 4; ++i) any = vorrq_u32(any, vcgtq_f32(a.v[i], b.v[i]));
  return vmaxvq_u32(any) != 0;
}
INLINE Vec replace_from(Vec a, int first, float value) {
  const int32_t counted[4] = {0, 1, 2, 3};
  const int32x4_t lanes = vld1q_s32(counted);
  FOUR(vbslq_f32(vcgeq_s32(vaddq_s32(lanes, vdupq_n_s32(4 * i)), vdupq_n_s32(first)), vdupq_n_f32(value), a.v[i]));
}
INLINE Vec whole_and_power(Vec a, Vec& power) {
  int32x4_t whole[4];
  UNROLL
  for (int i = 0; i < 4; ++i) {
    whole[i] = vcvtnq_s32_f32(a.v[i]);
    power.v[i] = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(whole[i], vdupq_n_s32(127)), 23));
  }
  FOUR(vcvtq_f32_s32(whole[i]));
}

constexpr RowFormat FORMAT = RowFormat::S8;
INLINE void store_rounded(Vec a, int zero, uint8_t* to) {
  int16x4_t values[4];
  UNROLL
  for (int i = 0; i < 4; ++i) values[i] = vmovn_s32(vaddq_s32(vcvtnq_s32_f32(a.v[i]), vdupq_n_s32(zero - 128)));
  const int8x8_t first = vmovn_s16(vcombine_s16(values[0], values[1]));
  const int8x8_t second = vmovn_s16(vcombine_s16(values[2], values[3]));
  vst1q_s8(reinterpret_cast<int8_t*>(to), vcombine_s8(first, second));
}

// Fold lanes i and i + 8, then i and i + 4.
INLINE float32x4_t folded(Vec a) { return vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3])); }

INLINE float sum(Vec a) {
  const float32x4_t four = folded(a);
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
INLINE float largest(Vec a) {
  const Vec all = max(a, {{a.v[2], a.v[3], a.v[0], a.v[1]}});
  float values[LANES];
  store(values, all);
  float found = values[0];
  for (int i = 1; i < 8; ++i) found = values[i] > found ? values[i] : found;
  return found;
}
#undef FOUR

#else

#define KIT_PLAIN
// Vectors of the compiler, which makes of them what the processor has.
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));
using Doubles = double __attribute__((vector_size(32)));
using Halves = uint32_t __attribute__((vector_size(32)));  // of doubles

struct Vec {
  Floats v[4];
};

INLINE bool any(Ints a) {
#ifdef __SSE2__
  return _mm_movemask_epi8(__m128i(a)) != 0;
#else
  return (a[0] | a[1] | a[2] | a[3]) != 0;
#endif
}

// a * b + c with one rounding. The product of floats is exact as a double; if the sum of doubles is not, it is rounded to
// odd, so that rounding it to a float cannot round twice.
[[maybe_unused]] __attribute__((noinline)) float fma_of(float a, float b, float c) {
  const double product = double(a) * double(b), added = c, total = product + added;
  const double from_product = total - added, from_added = total - from_product;
  const double error = (product - from_product) + (added - from_added);
  int64_t bits;
  std::memcpy(&bits, &total, sizeof bits);
  if ((error > 0 || error < 0) && !(bits & 1)) bits += (error > 0) == (total > 0) ? 1 : -1;
  double odd;
  std::memcpy(&odd, &bits, sizeof odd);
  return float(odd);
}

// The same for four: without that care unless a sum lies halfway between two floats, or is too small for a normal one.
INLINE Floats fma_of(Floats a, Floats b, Floats c) {
  Floats result;
#ifdef __FP_FAST_FMAF
  for (int i = 0; i < 4; ++i) result[i] = __builtin_fmaf(a[i], b[i], c[i]);
#else
  constexpr uint32_t BELOW = (1u << 29) - 1, HALFWAY = 1u << 28, SMALLEST = (1023 - 126) << 20;
  const Doubles total = __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles) +
                        __builtin_convertvector(c, Doubles);
  Halves halves;
  std::memcpy(&halves, &total, sizeof halves);
  const Ints low = {int32_t(halves[0]), int32_t(halves[2]), int32_t(halves[4]), int32_t(halves[6])};
  const Ints high = {int32_t(halves[1]), int32_t(halves[3]), int32_t(halves[5]), int32_t(halves[7])};
  const Ints size = high & 0x7FFFFFFF;
  result = __builtin_convertvector(total, Floats);
  if (any(((low & int32_t(BELOW)) == int32_t(HALFWAY)) | ((size < int32_t(SMALLEST)) & (size != 0))))
    for (int i = 0; i < 4; ++i) result[i] = fma_of(a[i], b[i], c[i]);
#endif
  return result;
}

#define FOUR(expression)  \
  Vec result;             \
  UNROLL                  \
  for (int i = 0; i < 4; ++i) result.v[i] = expression; \
  return result

INLINE Floats four(const float* from) {
  Floats values;
  std::memcpy(&values, from, sizeof values);
  return values;
}
INLINE Vec load(const float* from) { FOUR(four(from + 4 * i)); }
INLINE void store(float* to, Vec a) { std::memcpy(to, a.v, sizeof a.v); }
INLINE Vec set(float value) { FOUR((Floats{value, value, value, value})); }
INLINE Vec from_ints(const int32_t* from) {
  Ints values[4];
  std::memcpy(values, from, sizeof values);
  FOUR(__builtin_convertvector(values[i], Floats));
}
INLINE Vec from_bytes(const int8_t* from) {
  int32_t values[LANES];
  for (int i = 0; i < LANES; ++i) values[i] = from[i];
  return from_ints(values);
}
INLINE Vec add(Vec a, Vec b) { FOUR(a.v[i] + b.v[i]); }
INLINE Vec sub(Vec a, Vec b) { FOUR(a.v[i] - b.v[i]); }
INLINE Vec mul(Vec a, Vec b) { FOUR(a.v[i] * b.v[i]); }
INLINE Vec fma(Vec a, Vec b, Vec c) { FOUR(fma_of(a.v[i], b.v[i], c.v[i])); }
INLINE Vec fnma(Vec a, Vec b, Vec c) { FOUR(fma_of(-a.v[i], b.v[i], c.v[i])); }
INLINE Vec max(Vec a, Vec b) { FOUR(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
INLINE Vec min(Vec a, Vec b) { FOUR(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
INLINE bool any_greater(Vec a, Vec b) {
  return any((a.v[0] > b.v[0]) | (a.v[1] > b.v[1]) | (a.v[2] > b.v[2]) | (a.v[3] > b.v[3]));
}
INLINE Vec replace_from(Vec a, int first, float value) {
  const Floats other = {value, value, value, value};
  FOUR((Ints{0, 1, 2, 3} + 4 * i < first ? a.v[i] : other));
}

// Round to the nearest whole number, of two the even one: larger floats have no other digits.
INLINE Ints nearest(Floats a) { return __builtin_convertvector((a + 12582912.0f) - 12582912.0f, Ints); }

INLINE Vec whole_and_power(Vec a, Vec& power) {
  UNROLL
  for (int i = 0; i < 4; ++i) power.v[i] = Floats((nearest(a.v[i]) + 127) << 23);
  FOUR(__builtin_convertvector(nearest(a.v[i]), Floats));
}

constexpr RowFormat FORMAT = RowFormat::S16;
INLINE void store_rounded(Vec a, int, uint8_t* to) {
  int32_t values[LANES];
  int16_t narrow[LANES];
  for (int i = 0; i < 4; ++i) {
    const Ints whole = nearest(a.v[i]);
    std::memcpy(values + 4 * i, &whole, sizeof whole);
  }
  for (int i = 0; i < LANES; ++i) narrow[i] = int16_t(values[i]);
  std::memcpy(to, narrow, sizeof narrow);
}

INLINE float sum(Vec a) {
  const Floats four = (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
INLINE float largest(Vec a) {
  float values[LANES];
  store(values, a);
  float found = values[0];
  for (int i = 1; i < LANES; ++i) found = values[i] > found ? values[i] : found;
  return found;
}
#undef FOUR

#endif

#if defined(KIT_AVX512) || defined(KIT_AVX2)

INLINE float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(lower(a), upper(a));
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

INLINE float largest(Vec a) {
  const __m256 eight = _mm256_max_ps(lower(a), upper(a));
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

#endif

constexpr int ROW_BYTES = FORMAT == RowFormat::S16 ? 2 : 1;

// exp(x) for x of at most 0: 2 to the whole part of x / ln 2, times a polynomial of the rest.
INLINE Vec exp_of(Vec x) {
  x = max(x, set(-87));
  Vec power;
  const Vec whole = whole_and_power(mul(x, set(1.44269504f)), power);
  const Vec rest = fnma(whole, set(-2.12194440e-4f), fnma(whole, set(0.693359375f), x));
  Vec y = set(1.f / 720);
  y = fma(y, rest, set(1.f / 120));
  y = fma(y, rest, set(1.f / 24));
  y = fma(y, rest, set(1.f / 6));
  y = fma(y, rest, set(0.5f));
  y = fma(y, rest, set(1));
  y = fma(y, rest, set(1));
  return mul(y, power);
}

INLINE void round_to(Vec a, const Rounding& by, uint8_t* to) {
  store_rounded(min(max(mul(a, set(by.inverse)), set(by.low)), set(by.high)), by.zero, to);
}

}  // namespace
}  // namespace recoversat
