// Read and write one sentence on one core: encoder, then K segments step by step, with int8 weights.
//
// What the graph of whole sentences computes (export/onnx_sentence.py), in one call and with nothing between products:
// no memory is asked for while a sentence is written, weights lie as the products read them, and what follows a product
// (bias, ReLU, rounding, the residual sum, the best piece of the vocabulary) is done while its sums are at hand.
//
// Products are exact: sums of u8 rows times s8 weights in 32 bits, whatever the processor.
//   AVX2          rows as 16 bits with their zero point taken off, weights widened to 16 bits: vpmaddwd. vpmaddubsw would
//                 be a quarter faster, but adds two products in 16 bits: it needs rows of 7 bits, or signs that weights
//                 take on (vpsignb), which costs what it gains.
//   VNNI          vpdpbusd on 512 or 256 bits, rows as u8; sums begin with what the zero point is worth.
//   plain         the same layout as VNNI in plain C++: slow, to test it where no VNNI is.
//
// S source, K segments, N rows of a step, M places of a cache, D model, H heads, E = D / H, V pieces.

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#define INLINE inline __attribute__((always_inline))
#define FLAT __attribute__((always_inline))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define AVXVNNI __attribute__((target("avxvnni")))

namespace {

constexpr int LANES = 8;    // floats of a vector
constexpr int CHUNK = 16;   // values that are handed on at a time
constexpr int WIDEST = 32;  // columns of the widest tile
constexpr int MOST = 10;    // rows of the largest tile
constexpr int PAD = 0, BOS = 1, LARGEST_SPECIAL = 4;

// ---- memory ---------------------------------------------------------------------------------------------------------

template <class T>
struct Buffer {
  std::unique_ptr<T, decltype(&std::free)> held{nullptr, &std::free};
  size_t size = 0;

  // Have room for so many, and some more when it grows; what is in it stays.
  void need(size_t wanted) {
    if (wanted <= size) return;
    wanted = std::max(wanted, size + size / 2);
    const size_t bytes = (wanted * sizeof(T) + 63) / 64 * 64, used = size * sizeof(T);
    T* larger = static_cast<T*>(std::aligned_alloc(64, bytes));
    if (!larger) throw std::bad_alloc();
    if (used) std::memcpy(static_cast<void*>(larger), held.get(), used);
    std::memset(reinterpret_cast<char*>(larger) + used, 0, bytes - used);
    held.reset(larger);
    size = wanted;
  }
  T* get() const { return held.get(); }
  T& operator[](size_t at) const { return held.get()[at]; }
};

// ---- products -------------------------------------------------------------------------------------------------------

// Sums of R rows with one tile of columns: weights lie group by group of inputs, column by column, input by input.
using Kernel = void (*)(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, const int32_t* start,
                        int32_t* sums);

INLINE int32_t four_bytes(const uint8_t* at) {
  int32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <int R>
void sums_avx2(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, const int32_t*, int32_t* sums) {
  __m256i left[R], right[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) left[r] = right[r] = _mm256_setzero_si256();
  for (int g = 0; g < groups; ++g, weights += 32) {
    const __m256i first = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(weights)));
    const __m256i second = _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(weights + 16)));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m256i pair = _mm256_set1_epi32(four_bytes(rows + r * stride + 4 * g));
      left[r] = _mm256_add_epi32(left[r], _mm256_madd_epi16(pair, first));
      right[r] = _mm256_add_epi32(right[r], _mm256_madd_epi16(pair, second));
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums + 16 * r), left[r]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums + 16 * r + 8), right[r]);
  }
}

template <int R>
AVXVNNI void sums_avxvnni(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, const int32_t* start,
                          int32_t* sums) {
  __m256i left[R], right[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    left[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(start));
    right[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(start + 8));
  }
  for (int g = 0; g < groups; ++g, weights += 64) {
    const __m256i first = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights));
    const __m256i second = _mm256_load_si256(reinterpret_cast<const __m256i*>(weights + 32));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m256i four = _mm256_set1_epi32(four_bytes(rows + r * stride + 4 * g));
      left[r] = _mm256_dpbusd_avx_epi32(left[r], four, first);
      right[r] = _mm256_dpbusd_avx_epi32(right[r], four, second);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums + 16 * r), left[r]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(sums + 16 * r + 8), right[r]);
  }
}

template <int R>
AVX512 void sums_avx512(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, const int32_t* start,
                        int32_t* sums) {
  __m512i left[R], right[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    left[r] = _mm512_load_si512(start);
    right[r] = _mm512_load_si512(start + 16);
  }
  for (int g = 0; g < groups; ++g, weights += 128) {
    const __m512i first = _mm512_load_si512(weights), second = _mm512_load_si512(weights + 64);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m512i four = _mm512_set1_epi32(four_bytes(rows + r * stride + 4 * g));
      left[r] = _mm512_dpbusd_epi32(left[r], four, first);
      right[r] = _mm512_dpbusd_epi32(right[r], four, second);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    _mm512_store_si512(sums + 32 * r, left[r]);
    _mm512_store_si512(sums + 32 * r + 16, right[r]);
  }
}

template <int R>
void sums_plain(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, const int32_t* start,
                int32_t* sums) {
  for (int r = 0; r < R; ++r) {
    std::memcpy(sums + WIDEST * r, start, WIDEST * sizeof(int32_t));
    for (int at = 0; at < groups * WIDEST * 4; ++at)
      sums[WIDEST * r + at / 4 % WIDEST] += rows[r * stride + at / (4 * WIDEST) * 4 + at % 4] * weights[at];
  }
}

// How a processor multiplies.
struct Kit {
  const char* name;
  int columns;  // of a tile
  int group;    // inputs that are multiplied together
  int most;     // rows of a tile
  bool wide;    // rows are 16 bits, without their zero point
  Kernel kernels[MOST + 1];
};

#define SIX(f) nullptr, f<1>, f<2>, f<3>, f<4>, f<5>, f<6>
#define TEN(f) SIX(f), f<7>, f<8>, f<9>, f<10>
const Kit KITS[] = {
    {"avx512-vnni", 32, 4, 10, false, {TEN(sums_avx512)}},
    {"avx-vnni", 16, 4, 6, false, {SIX(sums_avxvnni)}},
    {"avx2", 16, 2, 6, true, {SIX(sums_avx2)}},
    {"plain", 32, 4, 10, false, {TEN(sums_plain)}},
};

bool runs(int kit) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
  if (kit == 0) return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512vl");
  if (kit == 1) return __builtin_cpu_supports("avxvnni");
  return kit < 4;
}

// How rows are rounded to 256 steps on their way into a product.
struct Rounding {
  float step = 1, inverse = 1, low = 0, high = 255;
  int zero = 0;
  bool wide = false;

  size_t bytes(int values) const { return wide ? 2 * values : values; }

  INLINE void put(uint8_t* row, int column, __m256 a, __m256 b) const {
    const __m256 by = _mm256_set1_ps(inverse), least = _mm256_set1_ps(low), most = _mm256_set1_ps(high);
    a = _mm256_min_ps(_mm256_max_ps(_mm256_mul_ps(a, by), least), most);
    b = _mm256_min_ps(_mm256_max_ps(_mm256_mul_ps(b, by), least), most);
    const __m256i mixed = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    const __m256i values = _mm256_permute4x64_epi64(mixed, 0xD8);
    if (wide) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(row + 2 * column), values);
      return;
    }
    const __m256i places = _mm256_add_epi16(values, _mm256_set1_epi16(static_cast<int16_t>(zero)));
    const __m128i small = _mm_packus_epi16(_mm256_castsi256_si128(places), _mm256_extracti128_si256(places, 1));
    _mm_store_si128(reinterpret_cast<__m128i*>(row + column), small);
  }
};

struct Product {
  const Kit* kit = nullptr;
  int in = 0, out = 0;
  Rounding rounding;
  Buffer<int8_t> weights;
  Buffer<float> scale, bias;
  Buffer<int32_t> start;

  void shape(const Kit& with, int inputs, int outputs) {
    kit = &with, in = inputs, out = outputs;
    weights.need(size_t(in) * out);
    scale.need(out), bias.need(out), start.need(out);
  }

  // Take a step and a zero point out of 256.
  void round_with(float step, int zero) {
    rounding = {step, 1 / step, float(-zero), float(255 - zero), zero, kit->wide};
  }

  // Put a column in its place; its inputs lie `apart` from each other.
  void pack(int column, const int8_t* from, size_t apart, float column_scale, float column_bias) {
    const int tile = column / kit->columns, inside = column % kit->columns, group = kit->group;
    int8_t* to = weights.get() + size_t(tile) * kit->columns * in + inside * group;
    int32_t sum = 0;
    for (int i = 0; i < in; i += group, to += kit->columns * group)
      for (int j = 0; j < group; ++j) {
        to[j] = from[(i + j) * apart];
        sum += to[j];
      }
    scale[column] = column_scale, bias[column] = column_bias;
    start[column] = kit->wide ? 0 : -rounding.zero * sum;
  }

  // Multiply rows and hand 16 values at a time to sink(row, column, values, more values).
  template <class Sink>
  INLINE void multiply(const uint8_t* rows, int n, Sink&& sink) const {
    multiply(rows, n, bias.get(), sink);
  }

  template <class Sink>
  INLINE void multiply(const uint8_t* rows, int n, const float* added, Sink&& sink) const {
    alignas(64) int32_t sums[MOST * WIDEST];
    const int columns = kit->columns, parts = (n + kit->most - 1) / kit->most;
    const size_t stride = rounding.bytes(in);
    for (int column = 0; column < out; column += columns) {
      for (int part = parts, row = 0; part; --part) {
        const int some = (n - row + part - 1) / part;
        kit->kernels[some](rows + row * stride, stride, weights.get() + size_t(column) * in, in / kit->group,
                           start.get() + column, sums);
        for (int at = 0; at < columns; at += CHUNK) {
          const float *s = scale.get() + column + at, *b = added + column + at;
          const __m256 scale_a = _mm256_load_ps(s), scale_b = _mm256_load_ps(s + LANES);
          const __m256 bias_a = _mm256_loadu_ps(b), bias_b = _mm256_loadu_ps(b + LANES);
          for (int r = 0; r < some; ++r) {
            const auto* sum = reinterpret_cast<const __m256i*>(sums + r * columns + at);
            const __m256 a = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_load_si256(sum)), scale_a);
            const __m256 c = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_load_si256(sum + 1)), scale_b);
            sink(row + r, column + at, _mm256_add_ps(a, bias_a), _mm256_add_ps(c, bias_b));
          }
        }
        row += some;
      }
    }
  }
};

// ---- in single precision --------------------------------------------------------------------------------------------

INLINE float sum_of(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

INLINE float max_of(__m256 v) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

// e to the x, for x of at most 0: 2 to the whole part of x / ln 2, times a polynomial of what is left.
INLINE __m256 exp_of(__m256 x) {
  x = _mm256_max_ps(x, _mm256_set1_ps(-87));
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m256 whole = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), nearest);
  __m256 rest = _mm256_fnmadd_ps(whole, _mm256_set1_ps(0.693359375f), x);
  rest = _mm256_fnmadd_ps(whole, _mm256_set1_ps(-2.12194440e-4f), rest);
  __m256 y = _mm256_set1_ps(1.f / 720);
  y = _mm256_fmadd_ps(y, rest, _mm256_set1_ps(1.f / 120));
  y = _mm256_fmadd_ps(y, rest, _mm256_set1_ps(1.f / 24));
  y = _mm256_fmadd_ps(y, rest, _mm256_set1_ps(1.f / 6));
  y = _mm256_fmadd_ps(y, rest, _mm256_set1_ps(0.5f));
  y = _mm256_fmadd_ps(y, rest, _mm256_set1_ps(1));
  y = _mm256_fmadd_ps(y, rest, _mm256_set1_ps(1));
  const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(y, _mm256_castsi256_ps(power));
}

struct Norm {
  const float *weight, *bias;

  // Normalise rows (N, D) and round them for a product.
  void round(const float* x, int n, int d, const Rounding& rounding, uint8_t* out) const {
    for (int row = 0; row < n; ++row, x += d, out += rounding.bytes(d)) {
      __m256 sum = _mm256_setzero_ps(), square = _mm256_setzero_ps();
      for (int i = 0; i < d; i += LANES) sum = _mm256_add_ps(sum, _mm256_load_ps(x + i));
      const __m256 mean = _mm256_set1_ps(sum_of(sum) / float(d));
      for (int i = 0; i < d; i += LANES) {
        const __m256 from_mean = _mm256_sub_ps(_mm256_load_ps(x + i), mean);
        square = _mm256_fmadd_ps(from_mean, from_mean, square);
      }
      const __m256 factor = _mm256_set1_ps(1 / std::sqrt(sum_of(square) / float(d) + 1e-5f));
      const auto one = [&](int i) FLAT {
        const __m256 unit = _mm256_mul_ps(_mm256_sub_ps(_mm256_load_ps(x + i), mean), factor);
        return _mm256_add_ps(_mm256_mul_ps(unit, _mm256_loadu_ps(weight + i)), _mm256_loadu_ps(bias + i));
      };
      for (int i = 0; i < d; i += CHUNK) rounding.put(out, i, one(i), one(i + LANES));
    }
  }
};

// Keys and values, as attention reads them: keys of 8 places side by side, so that a vector holds 8 scores; values place
// by place, a little apart so that the places of a head do not fight for the same lines of the cache.
struct Past {
  Buffer<float> keys, values;
  int d = 0, places = 0;

  size_t apart() const { return d + CHUNK; }

  void room(int size, int most) {
    d = size;
    keys.need(size_t(most + LANES - 1) / LANES * LANES * d);
    values.need(most * apart());
  }

  void copy(const Past& other) {
    room(other.d, other.places);
    places = other.places;
    if (!places) return;
    std::memcpy(keys.get(), other.keys.get(), size_t(places + LANES - 1) / LANES * LANES * d * sizeof(float));
    std::memcpy(values.get(), other.values.get(), places * apart() * sizeof(float));
  }

  INLINE void key(int place, int column, __m256 a, __m256 b) const {
    alignas(32) float all[CHUNK];
    _mm256_store_ps(all, a), _mm256_store_ps(all + LANES, b);
    float* to = keys.get() + (size_t(place) / LANES * d + column) * LANES + place % LANES;
    for (int i = 0; i < CHUNK; ++i) to[i * LANES] = all[i];
  }

  INLINE void value(int place, int column, __m256 a, __m256 b) const {
    float* to = values.get() + place * apart() + column;
    _mm256_store_ps(to, a), _mm256_store_ps(to + LANES, b);
  }
};

// Scores of Q queries, `size` values each, with B blocks of 8 places.
template <int Q, int B>
INLINE void score(const float* query, int d, int size, const float* keys, float* scores, size_t apart) {
  __m256 sum[Q][B];
#pragma GCC unroll 4
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) sum[q][b] = _mm256_setzero_ps();
  for (int e = 0; e < size; ++e) {
    __m256 key[B];
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) key[b] = _mm256_load_ps(keys + (size_t(b) * d + e) * LANES);
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
      const __m256 value = _mm256_broadcast_ss(query + size_t(q) * d + e);
#pragma GCC unroll 4
      for (int b = 0; b < B; ++b) sum[q][b] = _mm256_fmadd_ps(value, key[b], sum[q][b]);
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) _mm256_store_ps(scores + q * apart + b * LANES, sum[q][b]);
}

// Let Q queries of one head look at places and round what they see for the next product: the first sees `seen` of them,
// each of the others `more` than the one before. What is not seen weighs nothing, so that sums are those of `seen` alone.
template <int Q>
void look(const float* query, const Past& past, int seen, int more, int head, int size, float* scores, size_t apart,
          const Rounding& rounding, uint8_t* out) {
  const int d = past.d, first = head * size, blocks = (past.places + LANES - 1) / LANES;
  const float* keys = past.keys.get() + size_t(first) * LANES;
  const size_t block = size_t(d) * LANES;
  query += first;
  constexpr int B = Q == 4 ? 2 : 4;  // all sums stay in registers
  int b = 0;
  for (; b + B <= blocks; b += B) score<Q, B>(query, d, size, keys + b * block, scores + b * LANES, apart);
  for (; b < blocks; ++b) score<Q, 1>(query, d, size, keys + b * block, scores + b * LANES, apart);
  float inverse[Q];
  for (int q = 0; q < Q; ++q) {
    float* own = scores + q * apart;
    const int end = seen + q * more;
    for (int place = end; place < blocks * LANES; ++place) own[place] = -std::numeric_limits<float>::infinity();
    __m256 most = _mm256_load_ps(own), sum = _mm256_setzero_ps();
    for (int i = 1; i < blocks; ++i) most = _mm256_max_ps(most, _mm256_load_ps(own + i * LANES));
    most = _mm256_set1_ps(max_of(most));
    for (int i = 0; i < blocks; ++i) {
      const __m256 weight = exp_of(_mm256_sub_ps(_mm256_load_ps(own + i * LANES), most));
      _mm256_store_ps(own + i * LANES, weight);
      sum = _mm256_add_ps(sum, weight);
    }
    inverse[q] = 1 / sum_of(sum);
    if (more) std::fill(own + end, own + past.places, 0.f);
  }
  for (int e = 0; e < size; e += CHUNK) {
    __m256 found[Q][2];
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) found[q][0] = found[q][1] = _mm256_setzero_ps();
    const float* value = past.values.get() + first + e;
    for (int place = 0; place < past.places; ++place, value += past.apart()) {
      const __m256 a = _mm256_load_ps(value), b = _mm256_load_ps(value + LANES);
#pragma GCC unroll 4
      for (int q = 0; q < Q; ++q) {
        const __m256 weight = _mm256_broadcast_ss(scores + q * apart + place);
        found[q][0] = _mm256_fmadd_ps(weight, a, found[q][0]);
        found[q][1] = _mm256_fmadd_ps(weight, b, found[q][1]);
      }
    }
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
      const __m256 by = _mm256_set1_ps(inverse[q]);
      rounding.put(out + q * rounding.bytes(d), first + e, _mm256_mul_ps(found[q][0], by), _mm256_mul_ps(found[q][1], by));
    }
  }
}

// Let n queries look at a past: at all of it, or each, in its turn, at one place more than the one before and the last at
// all (`causal`).
void attend(const float* queries, int n, const Past& past, bool causal, int heads, float* scores,
            const Rounding& rounding, uint8_t* out) {
  const int size = past.d / heads, more = causal, first = past.places - more * (n - 1);
  const size_t apart = size_t(past.places + LANES - 1) / LANES * LANES, row = rounding.bytes(past.d);
  for (int head = 0; head < heads; ++head) {
    int q = 0;
    const auto next = [&](auto count) FLAT {
      constexpr int Q = decltype(count)::value;
      look<Q>(queries + q * past.d, past, first + q * more, more, head, size, scores, apart, rounding, out + q * row);
      q += Q;
    };
    while (q + 4 <= n) next(std::integral_constant<int, 4>());
    if (q + 2 <= n) next(std::integral_constant<int, 2>());
    if (q < n) next(std::integral_constant<int, 1>());
  }
}

// The best column so far, in each of 16 lanes; and the sum of exp(value - best), where log-probabilities are wanted.
struct Best {
  __m256 value[2], sum[2];
  __m256i column[2];

  void reset() {
    for (int i = 0; i < 2; ++i) {
      value[i] = _mm256_set1_ps(-std::numeric_limits<float>::max());
      sum[i] = _mm256_setzero_ps(), column[i] = _mm256_setzero_si256();
    }
  }

  template <bool SCORED>
  INLINE void see(int i, int first, __m256 found) {
    const __m256 better = _mm256_cmp_ps(found, value[i], _CMP_GT_OQ);
    if (!SCORED || _mm256_movemask_ps(better)) {
      const __m256 before = value[i];
      value[i] = _mm256_max_ps(found, before);
      const __m256i here = _mm256_add_epi32(_mm256_set1_epi32(first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
      column[i] = _mm256_blendv_epi8(column[i], here, _mm256_castps_si256(better));
      if (SCORED) sum[i] = _mm256_mul_ps(sum[i], exp_of(_mm256_sub_ps(before, value[i])));
    }
    if (SCORED) sum[i] = _mm256_add_ps(sum[i], exp_of(_mm256_sub_ps(found, value[i])));
  }

  // Return the first of the best columns and its log-probability.
  int best(float* log_prob) const {
    alignas(32) float values[CHUNK], sums[CHUNK];
    alignas(32) int32_t columns[CHUNK];
    for (int i = 0; i < 2; ++i) {
      _mm256_store_ps(values + i * LANES, value[i]), _mm256_store_ps(sums + i * LANES, sum[i]);
      _mm256_store_si256(reinterpret_cast<__m256i*>(columns + i * LANES), column[i]);
    }
    int at = 0;
    for (int i = 1; i < CHUNK; ++i)
      if (values[i] > values[at] || (values[i] == values[at] && columns[i] < columns[at])) at = i;
    if (log_prob) {
      float all = 0;
      for (int i = 0; i < CHUNK; ++i) all += sums[i] * std::exp(values[i] - values[at]);
      const bool none = values[at] == -std::numeric_limits<float>::max();  // nothing may be chosen
      *log_prob = none ? -std::numeric_limits<float>::infinity() : -std::log(all);
    }
    return columns[at];
  }
};

// ---- the model ------------------------------------------------------------------------------------------------------

struct Layer {
  Norm attention_norm, cross_norm, feed_forward_norm;
  Product qkv, output, cross_query, cross_output, inner, outer;
};

struct Sizes {
  int32_t d, hidden, heads, encoder_layers, decoder_layers, places;  // places: the vocabulary, padded
};

// Arrays come in the order in which engines/native/weights.py names them.
struct Arrays {
  const void* const* next;
  template <class T>
  const T* take() { return static_cast<const T*>(*next++); }
};

struct Model {
  Sizes sizes;
  const Kit* kit;
  std::vector<Layer> encoder, decoder;
  Norm encoder_norm, decoder_norm;
  Product memory, vocabulary;
  const int8_t* embedding;        // (V, D)
  const float *embedding_scale, *segment_embedding;

  Model(const Sizes& given, const Kit& with, Arrays arrays) : sizes(given), kit(&with) {
    const int d = sizes.d, hidden = sizes.hidden;
    for (int i = 0; i < sizes.encoder_layers + sizes.decoder_layers; ++i) {
      const bool decodes = i >= sizes.encoder_layers;
      Layer& layer = (decodes ? decoder : encoder).emplace_back();
      layer.attention_norm = norm(arrays);
      product(layer.qkv, arrays, d, d, 3);
      product(layer.output, arrays, d, d);
      if (decodes) {
        layer.cross_norm = norm(arrays);
        product(layer.cross_query, arrays, d, d);
        product(layer.cross_output, arrays, d, d);
      }
      layer.feed_forward_norm = norm(arrays);
      product(layer.inner, arrays, d, hidden);
      product(layer.outer, arrays, hidden, d);
    }
    encoder_norm = norm(arrays), decoder_norm = norm(arrays);
    product(memory, arrays, d, 2 * d * sizes.decoder_layers);
    vocabulary.shape(with, d, sizes.places);
    const float given_step = *arrays.take<float>();
    vocabulary.round_with(given_step, *arrays.take<uint8_t>());
    embedding = arrays.take<int8_t>(), embedding_scale = arrays.take<float>();
    segment_embedding = arrays.take<float>();
    const float step = vocabulary.rounding.step;
    for (int piece = 0; piece < sizes.places; ++piece) pack_piece(vocabulary, piece, piece, step, 0);
  }

  Norm norm(Arrays& arrays) {
    const float* weight = arrays.take<float>();
    return {weight, arrays.take<float>()};
  }

  void product(Product& to, Arrays& arrays, int in, int out, int parts = 1) {
    to.shape(*kit, in, parts * out);
    const float given_step = *arrays.take<float>();
    to.round_with(given_step, *arrays.take<uint8_t>());
    const float step = to.rounding.step;
    for (int part = 0; part < parts; ++part) {
      const int8_t* weight = arrays.take<int8_t>();
      const float* scale = arrays.take<float>();
      const float* bias = arrays.take<float>();
      for (int n = 0; n < out; ++n) to.pack(part * out + n, weight + n, out, step * scale[n], bias[n]);
    }
  }

  void pack_piece(Product& to, int column, int piece, float step, float bias) const {
    to.pack(column, embedding + size_t(piece) * sizes.d, 1, step * embedding_scale[piece], bias);
  }
};

// ---- one sentence ---------------------------------------------------------------------------------------------------

// Keys and values of a sentence for every decoder layer: of its source, or of what has been written.
using Pasts = std::vector<Past>;

// What a thread needs to write sentences; it grows with the longest.
struct Work {
  const Model& model;
  const int d, heads;
  const float query_scale;
  Past source;             // of the encoder's layer at work
  Pasts memory, written;   // of a sentence that is written in one go
  Buffer<float> x, queries, scores;
  Buffer<uint8_t> rows, hidden_rows;
  Product list;            // the part of the vocabulary that a list names
  std::vector<Best> best;

  explicit Work(const Model& of)
      : model(of), d(of.sizes.d), heads(of.sizes.heads), query_scale(1 / std::sqrt(float(d / heads))),
        memory(of.decoder.size()), written(of.decoder.size()) {}

  // Have room for n rows that look at so many places.
  void make_room(size_t n, size_t places) {
    x.need(n * d), queries.need(n * d), scores.need(4 * (places + LANES));
    rows.need(2 * n * d), hidden_rows.need(2 * n * std::max(d, model.sizes.hidden));
    best.resize(std::max(best.size(), n));
  }

  INLINE void embed(int row, int token, const float* position, const float* segment) {
    const int8_t* from = model.embedding + size_t(token) * d;
    const __m256 factor = _mm256_set1_ps(model.embedding_scale[token] * std::sqrt(float(d)));
    for (int i = 0; i < d; i += LANES) {
      __m256 place = _mm256_loadu_ps(position + i);
      if (segment) place = _mm256_add_ps(_mm256_loadu_ps(segment + i), place);
      const __m256i values = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i)));
      const __m256 word = _mm256_mul_ps(_mm256_cvtepi32_ps(values), factor);
      _mm256_store_ps(x.get() + size_t(row) * d + i, _mm256_add_ps(word, place));
    }
  }

  void self_attention(const Layer& layer, int n, Past& past, bool causal) {
    layer.attention_norm.round(x.get(), n, d, layer.qkv.rounding, rows.get());
    const int first = past.places;
    layer.qkv.multiply(rows.get(), n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      if (column < d) query(row, column, a, b);
      else if (column < 2 * d) past.key(first + row, column - d, a, b);
      else past.value(first + row, column - 2 * d, a, b);
    });
    past.places += n;
    attend(queries.get(), n, past, causal, heads, scores.get(), layer.output.rounding, rows.get());
    add(layer.output, rows.get(), n);
  }

  void cross_attention(const Layer& layer, int n, const Past& past) {
    layer.cross_norm.round(x.get(), n, d, layer.cross_query.rounding, rows.get());
    layer.cross_query.multiply(rows.get(), n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      query(row, column, a, b);
    });
    attend(queries.get(), n, past, false, heads, scores.get(), layer.cross_output.rounding, rows.get());
    add(layer.cross_output, rows.get(), n);
  }

  void feed_forward(const Layer& layer, int n) {
    layer.feed_forward_norm.round(x.get(), n, d, layer.inner.rounding, rows.get());
    Rounding rounding = layer.outer.rounding;
    rounding.low = std::max(rounding.low, 0.0f);  // ReLU
    const size_t stride = rounding.bytes(model.sizes.hidden);
    layer.inner.multiply(rows.get(), n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      rounding.put(hidden_rows.get() + row * stride, column, a, b);
    });
    add(layer.outer, hidden_rows.get(), n);
  }

  INLINE void query(int row, int column, __m256 a, __m256 b) {
    const __m256 by = _mm256_set1_ps(query_scale);
    float* to = queries.get() + size_t(row) * d + column;
    _mm256_store_ps(to, _mm256_mul_ps(a, by)), _mm256_store_ps(to + LANES, _mm256_mul_ps(b, by));
  }

  void add(const Product& product, const uint8_t* from, int n) {
    product.multiply(from, n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      float* to = x.get() + size_t(row) * d + column;
      _mm256_store_ps(to, _mm256_add_ps(_mm256_load_ps(to), a));
      _mm256_store_ps(to + LANES, _mm256_add_ps(_mm256_load_ps(to + LANES), b));
    });
  }

  void encode(const int32_t* tokens, int n, const float* positions, Pasts& into) {
    make_room(n, n);
    source.room(d, n);
    for (auto& past : into) past.room(d, n);
    for (int row = 0; row < n; ++row) embed(row, tokens[row], positions + size_t(row) * d, nullptr);
    for (const Layer& layer : model.encoder) {
      source.places = 0;
      self_attention(layer, n, source, false);
      feed_forward(layer, n);
    }
    model.encoder_norm.round(x.get(), n, d, model.memory.rounding, rows.get());
    model.memory.multiply(rows.get(), n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      const Past& past = into[column / (2 * d)];
      const int own = column % (2 * d);
      if (own < d) past.key(row, own, a, b);
      else past.value(row, own - d, a, b);
    });
    for (auto& past : into) past.places = n;
  }

  // Let n rows through the decoder, and round them for the output matrix. All have one position and see each other
  // (`causal` false), or follow one another and see those before them.
  void decode(const Pasts& from, Pasts& so_far, const int32_t* tokens, const int32_t* segments, int n,
              const float* position, bool causal) {
    const int places = so_far[0].places + n;
    make_room(n, std::max(places, from[0].places));
    for (int row = 0; row < n; ++row)
      embed(row, tokens[row], position + size_t(causal) * row * d, model.segment_embedding + size_t(segments[row]) * d);
    for (size_t i = 0; i < model.decoder.size(); ++i) {
      so_far[i].room(d, places);
      self_attention(model.decoder[i], n, so_far[i], causal);
      cross_attention(model.decoder[i], n, from[i]);
      feed_forward(model.decoder[i], n);
    }
    model.decoder_norm.round(x.get(), n, d, model.vocabulary.rounding, rows.get());
  }

  // Choose the best column of the output matrix for each of n rows.
  void choose(const Product& output, const float* bias, int n, int32_t* chosen, float* log_probs) {
    for (int row = 0; row < n; ++row) best[row].reset();
    if (log_probs) find_best<true>(output, bias, n);
    else find_best<false>(output, bias, n);
    for (int row = 0; row < n; ++row) chosen[row] = best[row].best(log_probs ? log_probs + row : nullptr);
  }

  template <bool SCORED>
  void find_best(const Product& output, const float* bias, int n) {
    output.multiply(rows.get(), n, bias, [&](int row, int column, __m256 a, __m256 b) FLAT {
      best[row].see<SCORED>(0, column, a);
      best[row].see<SCORED>(1, column + LANES, b);
    });
  }

  // Cut the output matrix: only these pieces may be chosen.
  const Product& cut(const int32_t* pieces, int n, const float* piece_bias) {
    const int size = (n + WIDEST - 1) / WIDEST * WIDEST;
    list.shape(*model.kit, d, size);
    const float step = model.vocabulary.rounding.step;
    list.rounding = model.vocabulary.rounding;
    for (int at = 0; at < size; ++at) {
      const bool real = at < n;
      model.pack_piece(list, at, real ? pieces[at] : PAD, step,
                       real ? piece_bias[pieces[at]] : -std::numeric_limits<float>::infinity());
    }
    return list;
  }
};

}  // namespace

extern "C" {

// Say whether a kit of this number runs here; nullptr: there is no such kit, "": it does not run.
const char* rs_kit(int kit) { return kit < 0 || kit > 3 ? nullptr : runs(kit) ? KITS[kit].name : ""; }

// Read a model's arrays, which have to stay where they are; nullptr: no memory, or sizes that are not supported.
void* rs_model(const int32_t* sizes, int kit, const void* const* arrays) try {
  const auto odd = [](int size) { return size < 1 || size % WIDEST; };
  const Sizes s{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]};
  if (!runs(kit) || odd(s.d) || odd(s.hidden) || odd(s.places) || s.heads < 1 || s.d % s.heads || s.d / s.heads % CHUNK)
    return nullptr;
  return new Model(s, KITS[kit], {arrays});
} catch (const std::exception&) {
  return nullptr;
}

void rs_model_free(void* model) { delete static_cast<Model*>(model); }

void* rs_work(const void* model) try {
  return new Work(*static_cast<const Model*>(model));
} catch (const std::exception&) {
  return nullptr;
}

void rs_work_free(void* work) { delete static_cast<Work*>(work); }

// Keys and values that outlive a call.
void* rs_pasts(const void* model) try {
  return new Pasts(static_cast<const Model*>(model)->decoder.size());
} catch (const std::exception&) {
  return nullptr;
}

void rs_pasts_free(void* pasts) { delete static_cast<Pasts*>(pasts); }

int rs_pasts_copy(void* to, const void* from) try {
  for (size_t i = 0; i < static_cast<Pasts*>(to)->size(); ++i)
    (*static_cast<Pasts*>(to))[i].copy((*static_cast<const Pasts*>(from))[i]);
  return 0;
} catch (const std::exception&) {
  return -1;
}

// Do nothing but the products of n rows: 0 those of the encoder, 1 of the decoder's layers in a step, 2 the vocabulary.
void rs_products(void* work, int part, int n) {
  Work& w = *static_cast<Work*>(work);
  w.make_room(n, n);
  const auto run = [&](const Product& product) {
    product.multiply(w.hidden_rows.get(), n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      w.best[row].see<false>(0, column, a), w.best[row].see<false>(1, column, b);
    });
  };
  for (const Layer& layer : part == 0 ? w.model.encoder : w.model.decoder) {
    if (part == 2) break;
    run(layer.qkv), run(layer.output), run(layer.inner), run(layer.outer);
    if (part == 1) run(layer.cross_query), run(layer.cross_output);
  }
  if (part == 0) run(w.model.memory);
  if (part == 2) run(w.model.vocabulary);
}

// Read a source; `memory` gets its keys and values. Returns -1 if there is no memory, as do the others.
int rs_encode(void* work, void* memory, const int32_t* source, int n, const float* positions) try {
  static_cast<Work*>(work)->encode(source, n, positions, *static_cast<Pasts*>(memory));
  return 0;
} catch (const std::exception&) {
  return -1;
}

// Append n rows after the first `kept` ones, which stand at `position` side by side or, if `causal`, one after the other.
// `bias` (V) is added to logits. `chosen` (n) gets the best piece of each row; `log_probs` (n) and `logits` (n, V) may
// be null.
int rs_rows(void* work, const void* memory, void* written, int kept, const int32_t* tokens, const int32_t* segments, int n,
            const float* position, int causal, const float* bias, int32_t* chosen, float* log_probs, float* logits) try {
  Work& w = *static_cast<Work*>(work);
  Pasts& so_far = *static_cast<Pasts*>(written);
  for (auto& past : so_far) past.places = kept;
  w.decode(*static_cast<const Pasts*>(memory), so_far, tokens, segments, n, position, causal);
  w.choose(w.model.vocabulary, bias, n, chosen, log_probs);
  if (logits)
    w.model.vocabulary.multiply(w.rows.get(), n, bias, [&](int row, int column, __m256 a, __m256 b) FLAT {
      float* to = logits + size_t(row) * w.model.sizes.places + column;
      _mm256_storeu_ps(to, a), _mm256_storeu_ps(to + LANES, b);
    });
  return 0;
} catch (const std::exception&) {
  return -1;
}

// Write segment k in at most steps[k] steps. `memory` may be null: the source is read first. `bias` (V) is added to
// logits; `pieces` (n_pieces) may be null: all of them. `chosen` (T, K) gets what each segment got in each step, PAD
// after its end; `log_probs` (T, K) may be null. Returns the number of steps.
int rs_write(void* work, const void* memory, const int32_t* source, int n_source, const int32_t* steps, int k,
             const float* positions, const float* bias, const int32_t* pieces, int n_pieces, int32_t* chosen,
             float* log_probs) try {
  Work& w = *static_cast<Work*>(work);
  if (!memory) w.encode(source, n_source, positions, w.memory);
  const Pasts& from = memory ? *static_cast<const Pasts*>(memory) : w.memory;
  const Product& output = pieces ? w.cut(pieces, n_pieces, bias) : w.model.vocabulary;
  if (pieces) bias = output.bias.get();
  for (auto& past : w.written) past.places = 0;
  std::vector<int32_t> tokens(k, BOS), segments(k), found(k);
  std::vector<float> scores(k);
  for (int segment = 0; segment < k; ++segment) segments[segment] = segment;
  int n = k, step = 0;
  for (; n; ++step, chosen += k) {
    w.decode(from, w.written, tokens.data(), segments.data(), n, positions + size_t(step) * w.d, false);
    w.choose(output, bias, n, found.data(), log_probs ? scores.data() : nullptr);
    std::fill(chosen, chosen + k, PAD);
    int open = 0;
    for (int row = 0; row < n; ++row) {
      const int segment = segments[row], token = pieces ? pieces[found[row]] : found[row];
      chosen[segment] = token;
      if (log_probs) log_probs[size_t(step) * k + segment] = scores[row];
      if (token > LARGEST_SPECIAL && step + 1 < steps[segment]) tokens[open] = token, segments[open++] = segment;
    }
    n = open;
  }
  return step;
} catch (const std::exception&) {
  return -1;
}
}
