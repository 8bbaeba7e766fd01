// Read and write sentences on one core: encoder, then K segments step by step, with int8 weights.
//
// What the graph of whole sentences computes (export/onnx_sentence.py), in one call and with nothing between products:
// no memory is asked for while sentences are written, weights lie as the products read them, and what follows a product
// (bias, ReLU, rounding, the residual sum, the best piece of the vocabulary) is done while its sums are at hand.
//
// Rows of several sentences go through a product side by side; each looks at its own sentence only. Nothing that is
// computed for a row depends on the others: sums of products are exact, all other sums are of one row, in one order.
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
#ifdef __linux__
#include <sys/mman.h>
#endif

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
constexpr int FEW = 4;      // rows that keep the multipliers less busy than the memory
constexpr int LOOKS = 5;    // queries that look at places at a time
constexpr int AHEAD = 12;   // pieces that are fetched before their turn
constexpr int DEEPEST = 1 << 16;  // inputs whose sums fit into 32 bits: 255 times -128 each at most
constexpr int PAD = 0, BOS = 1, EOS = 2, LARGEST_SPECIAL = 4;

// ---- memory ---------------------------------------------------------------------------------------------------------

constexpr size_t PAGE = 1 << 21;  // of what is large, where the system has such pages

template <class T>
struct Buffer {
  std::unique_ptr<T, decltype(&std::free)> held{nullptr, &std::free};
  size_t size = 0;

  // Have room for so many, and some more when it grows; what is in it stays.
  void need(size_t wanted) {
    if (wanted <= size) return;
    wanted = std::max(wanted, size + size / 2);
    const size_t used = size * sizeof(T), whole = wanted * sizeof(T) < 2 * PAGE ? 64 : PAGE;
    const size_t bytes = (wanted * sizeof(T) + whole - 1) / whole * whole;
    T* larger = static_cast<T*>(std::aligned_alloc(whole, bytes));
    if (!larger) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (whole == PAGE) madvise(larger, bytes, MADV_HUGEPAGE);  // fewer addresses to look up while weights are read
#endif
    if (used) std::memcpy(static_cast<void*>(larger), held.get(), used);
    std::memset(reinterpret_cast<char*>(larger) + used, 0, bytes - used);
    held.reset(larger);
    size = wanted;
  }
  T* get() const { return held.get(); }
  T& operator[](size_t at) const { return held.get()[at]; }
};

// ---- products -------------------------------------------------------------------------------------------------------

// Sums of R rows with one tile of columns: weights lie group by group of inputs, column by column, input by input. Those
// that lie `ahead` of them are fetched on the way, if rows are more than a few: those wait for weights as it is.
using Kernel = void (*)(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, size_t ahead,
                        const int32_t* start, int32_t* sums);

INLINE void fetch(const int8_t* at) { _mm_prefetch(at, _MM_HINT_T1); }

INLINE int32_t four_bytes(const uint8_t* at) {
  int32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <int R>
void sums_avx2(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, size_t ahead, const int32_t*,
               int32_t* sums) {
  __m256i left[R], right[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) left[r] = right[r] = _mm256_setzero_si256();
  for (int g = 0; g < groups; ++g, weights += 32) {
    if (R > FEW && g % 2 == 0) fetch(weights + ahead);
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
AVXVNNI void sums_avxvnni(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, size_t ahead,
                          const int32_t* start, int32_t* sums) {
  __m256i left[R], right[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    left[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(start));
    right[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(start + 8));
  }
  for (int g = 0; g < groups; ++g, weights += 64) {
    if (R > FEW) fetch(weights + ahead);
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
AVX512 void sums_avx512(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, size_t ahead,
                        const int32_t* start, int32_t* sums) {
  __m512i left[R], right[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    left[r] = _mm512_load_si512(start);
    right[r] = _mm512_load_si512(start + 16);
  }
  for (int g = 0; g < groups; ++g, weights += 128) {
    if (R > FEW) fetch(weights + ahead), fetch(weights + ahead + 64);
    __m512i first = _mm512_load_si512(weights), second = _mm512_load_si512(weights + 64);
    if (R > 1) __asm__("" : "+v"(first), "+v"(second));  // loaded once, not by each that multiplies
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
void sums_plain(const uint8_t* rows, size_t stride, const int8_t* weights, int groups, size_t, const int32_t* start,
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
  int8_t* weights = nullptr;
  Buffer<float> scale, bias;
  Buffer<int32_t> start;

  // Take a shape, and room for as many weights.
  void shape(const Kit& with, int inputs, int outputs, int8_t* room) {
    kit = &with, in = inputs, out = outputs, weights = room;
    scale.need(out), bias.need(out), start.need(out);
  }

  // Take a step and a zero point out of 256.
  void round_with(float step, int zero) {
    rounding = {step, 1 / step, float(-zero), float(255 - zero), zero, kit->wide};
  }

  // Put a column in its place; its inputs lie `apart` from each other.
  void pack(int column, const int8_t* from, size_t apart, float column_scale, float column_bias) {
    const int tile = column / kit->columns, inside = column % kit->columns, group = kit->group;
    int8_t* to = weights + size_t(tile) * kit->columns * in + inside * group;
    int32_t sum = 0;
    for (int i = 0; i < in; i += group, to += kit->columns * group)
      for (int j = 0; j < group; ++j) {
        to[j] = from[(i + j) * apart];
        sum += to[j];
      }
    scale[column] = column_scale, bias[column] = column_bias;
    start[column] = kit->wide ? 0 : -rounding.zero * sum;
  }

  // Put four columns side by side, the first of them in a place that four divides; the inputs of each lie in a row.
  void pack_four(int column, const int8_t* const* from) {
    const int tile = column / kit->columns, inside = column % kit->columns, group = kit->group;
    const int apart = kit->columns * group;
    int8_t* to = weights + size_t(tile) * kit->columns * in + inside * group;
    if (group == 4) {
      const auto load = [&](int c, int i) FLAT { return _mm_loadu_ps(reinterpret_cast<const float*>(from[c] + i)); };
      for (int i = 0; i < in; i += 16) {
        __m128 a = load(0, i), b = load(1, i), c = load(2, i), d = load(3, i);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        for (const __m128 one : {a, b, c, d}) _mm_store_ps(reinterpret_cast<float*>(to), one), to += apart;
      }
      return;
    }
    for (int i = 0; i < in; i += group, to += apart)
      for (int c = 0; c < 4; ++c) std::memcpy(to + c * group, from[c] + i, group);
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
        const size_t ahead = part == parts ? size_t(columns) * in : 0;
        kit->kernels[some](rows + row * stride, stride, weights + size_t(column) * in, in / kit->group, ahead,
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
    int row = 0;
    for (; row + 4 <= n; row += 4) some<4>(x + size_t(row) * d, d, rounding, out + row * rounding.bytes(d));
    for (; row < n; ++row) some<1>(x + size_t(row) * d, d, rounding, out + row * rounding.bytes(d));
  }

  // Do so with R rows side by side, since each sum waits for the one before it.
  template <int R>
  void some(const float* x, int d, const Rounding& rounding, uint8_t* out) const {
    __m256 sum[R], square[R], mean[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum[r] = square[r] = _mm256_setzero_ps();
    for (int i = 0; i < d; i += LANES)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r] = _mm256_add_ps(sum[r], _mm256_load_ps(x + r * d + i));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) mean[r] = _mm256_set1_ps(sum_of(sum[r]) / float(d));
    for (int i = 0; i < d; i += LANES)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const __m256 from_mean = _mm256_sub_ps(_mm256_load_ps(x + r * d + i), mean[r]);
        square[r] = _mm256_fmadd_ps(from_mean, from_mean, square[r]);
      }
    for (int r = 0; r < R; ++r, x += d, out += rounding.bytes(d)) {
      const __m256 factor = _mm256_set1_ps(1 / std::sqrt(sum_of(square[r]) / float(d) + 1e-5f));
      const auto one = [&](int i) FLAT {
        const __m256 unit = _mm256_mul_ps(_mm256_sub_ps(_mm256_load_ps(x + i), mean[r]), factor);
        return _mm256_add_ps(_mm256_mul_ps(unit, _mm256_loadu_ps(weight + i)), _mm256_loadu_ps(bias + i));
      };
      for (int i = 0; i < d; i += CHUNK) rounding.put(out, i, one(i), one(i + LANES));
    }
  }
};

// Keys and values, as attention reads them, in blocks of 8 places: of keys the places of a column lie side by side, so
// that a vector holds 8 scores; of values those of 16 columns lie one after the other.
struct Past {
  Buffer<float> keys, values;
  int d = 0, places = 0;

  static size_t blocks(size_t places) { return (places + LANES - 1) / LANES; }
  size_t block() const { return size_t(d) * LANES; }

  void room(int size, size_t most) {
    d = size;
    keys.need(blocks(most) * block()), values.need(blocks(most) * block());
  }

  void copy(const Past& other) {
    room(other.d, other.places);
    places = other.places;
    const size_t bytes = blocks(places) * block() * sizeof(float);
    if (bytes) std::memcpy(keys.get(), other.keys.get(), bytes), std::memcpy(values.get(), other.values.get(), bytes);
  }

  // Return what so many places take, and what growing may add to it.
  static size_t bytes(int size, size_t most) { return 2 * blocks(most) * LANES * size * sizeof(float) * 3 / 2; }
};

// Where the key and the value of a row go.
struct Door {
  float *keys, *values;

  Door(const Past& past, int place)
      : keys(past.keys.get() + place / LANES * past.block() + place % LANES),
        values(past.values.get() + place / LANES * past.block() + place % LANES * CHUNK) {}

  INLINE void key(int column, __m256 a, __m256 b) const {
    alignas(32) float all[CHUNK];
    _mm256_store_ps(all, a), _mm256_store_ps(all + LANES, b);
    for (int i = 0; i < CHUNK; ++i) keys[(column + i) * LANES] = all[i];
  }

  INLINE void value(int column, __m256 a, __m256 b) const {
    float* to = values + column * LANES;
    _mm256_store_ps(to, a), _mm256_store_ps(to + LANES, b);
  }
};

// Scores of Q queries, `size` values each, with B blocks of 8 places.
template <int Q, int B>
INLINE void score(const float* query, int d, int size, const float* keys, float* scores, size_t apart) {
  __m256 sum[Q][B];
#pragma GCC unroll 5
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) sum[q][b] = _mm256_setzero_ps();
  for (int e = 0; e < size; ++e) {
    __m256 key[B];
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) key[b] = _mm256_load_ps(keys + (size_t(b) * d + e) * LANES);
#pragma GCC unroll 5
    for (int q = 0; q < Q; ++q) {
      const __m256 value = _mm256_broadcast_ss(query + size_t(q) * d + e);
#pragma GCC unroll 4
      for (int b = 0; b < B; ++b) sum[q][b] = _mm256_fmadd_ps(value, key[b], sum[q][b]);
    }
  }
#pragma GCC unroll 5
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) _mm256_store_ps(scores + q * apart + b * LANES, sum[q][b]);
}

// Turn the scores of a query into weights; it sees the first `end` places. Return one over their sum.
INLINE float weigh(float* own, int end, int blocks) {
  const __m256 lanes = _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 nothing = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
  for (int i = end / LANES; i < blocks; ++i) {
    const __m256 hidden = _mm256_cmp_ps(lanes, _mm256_set1_ps(float(end - i * LANES)), _CMP_GE_OQ);
    _mm256_store_ps(own + i * LANES, _mm256_blendv_ps(_mm256_load_ps(own + i * LANES), nothing, hidden));
  }
  __m256 most = _mm256_load_ps(own), sum = _mm256_setzero_ps();
  for (int i = 1; i < blocks; ++i) most = _mm256_max_ps(most, _mm256_load_ps(own + i * LANES));
  most = _mm256_set1_ps(max_of(most));
  for (int i = 0; i < blocks; ++i) {
    const __m256 weight = exp_of(_mm256_sub_ps(_mm256_load_ps(own + i * LANES), most));
    _mm256_store_ps(own + i * LANES, weight);
    sum = _mm256_add_ps(sum, weight);
  }
  return 1 / sum_of(sum);
}

// Let Q queries of one head look at places and round what they see for the next product: the first sees `seen` of them,
// each of the others `more` than the one before. What is not seen weighs nothing, so that sums are those of `seen` alone.
template <int Q>
void look(const float* query, const Past& past, int seen, int more, int head, int size, float* scores, size_t apart,
          const Rounding& rounding, uint8_t* out) {
  const int d = past.d, first = head * size, blocks = int(Past::blocks(past.places));
  const float* keys = past.keys.get() + size_t(first) * LANES;
  const size_t block = past.block();
  query += first;
  constexpr int B = Q > 2 ? 2 : 4;  // all sums stay in registers
  int b = 0;
  for (; b + B <= blocks; b += B) score<Q, B>(query, d, size, keys + b * block, scores + b * LANES, apart);
  for (; b < blocks; ++b) score<Q, 1>(query, d, size, keys + b * block, scores + b * LANES, apart);
  float inverse[Q];
  for (int q = 0; q < Q; ++q) {
    float* own = scores + q * apart;
    const int end = seen + q * more;
    inverse[q] = weigh(own, end, blocks);
    if (more) std::fill(own + end, own + past.places, 0.f);
  }
  for (int e = 0; e < size; e += CHUNK) {
    __m256 found[Q][2];
#pragma GCC unroll 5
    for (int q = 0; q < Q; ++q) found[q][0] = found[q][1] = _mm256_setzero_ps();
    const float* values = past.values.get() + size_t(first + e) * LANES;
    for (int begin = 0; begin < past.places; begin += LANES, values += block)
      for (int place = begin; place < std::min(begin + LANES, past.places); ++place) {
        const float* value = values + (place - begin) * CHUNK;
        const __m256 left = _mm256_load_ps(value), right = _mm256_load_ps(value + LANES);
#pragma GCC unroll 5
        for (int q = 0; q < Q; ++q) {
          const __m256 weight = _mm256_broadcast_ss(scores + q * apart + place);
          found[q][0] = _mm256_fmadd_ps(weight, left, found[q][0]);
          found[q][1] = _mm256_fmadd_ps(weight, right, found[q][1]);
        }
      }
#pragma GCC unroll 5
    for (int q = 0; q < Q; ++q) {
      const __m256 by = _mm256_set1_ps(inverse[q]);
      rounding.put(out + q * rounding.bytes(d), first + e, _mm256_mul_ps(found[q][0], by), _mm256_mul_ps(found[q][1], by));
    }
  }
}

// Let n queries look at a past: at all of it, or each, in its turn, at one place more than the one before and the last at
// all (`causal`). Up to five look at once, as equal parts as can be.
void attend(const float* queries, int n, const Past& past, bool causal, int heads, float* scores,
            const Rounding& rounding, uint8_t* out) {
  const int size = past.d / heads, more = causal, first = past.places - more * (n - 1);
  const size_t apart = Past::blocks(past.places) * LANES, row = rounding.bytes(past.d);
  for (int head = 0; head < heads; ++head) {
    int q = 0;
    const auto next = [&](auto count) FLAT {
      constexpr int Q = decltype(count)::value;
      look<Q>(queries + size_t(q) * past.d, past, first + q * more, more, head, size, scores, apart, rounding,
              out + q * row);
      q += Q;
    };
    for (int parts = (n + LOOKS - 1) / LOOKS; parts; --parts) switch ((n - q + parts - 1) / parts) {
      case 1: next(std::integral_constant<int, 1>()); break;
      case 2: next(std::integral_constant<int, 2>()); break;
      case 3: next(std::integral_constant<int, 3>()); break;
      case 4: next(std::integral_constant<int, 4>()); break;
      default: next(std::integral_constant<int, LOOKS>());
    }
  }
}

// The best column so far, of equals the first; and the sum of exp(value - best), where log-probabilities are wanted.
struct Best {
  float value;
  int32_t column;
  __m256 sum;

  void reset() { value = -std::numeric_limits<float>::max(), column = -1, sum = _mm256_setzero_ps(); }

  // See 16 columns; hardly ever is one of them better.
  template <bool SCORED>
  INLINE void see(int first, __m256 a, __m256 b) {
    const __m256 better = _mm256_cmp_ps(_mm256_max_ps(a, b), _mm256_set1_ps(value), _CMP_GT_OQ);
    if (_mm256_movemask_ps(better)) {
      const float before = value;
      take(first, a, b);
      if (SCORED) sum = _mm256_mul_ps(sum, exp_of(_mm256_set1_ps(before - value)));
    }
    if (!SCORED) return;
    const __m256 best = _mm256_set1_ps(value);
    sum = _mm256_add_ps(sum, _mm256_add_ps(exp_of(_mm256_sub_ps(a, best)), exp_of(_mm256_sub_ps(b, best))));
  }

  __attribute__((noinline)) void take(int first, __m256 a, __m256 b) {
    alignas(32) float values[CHUNK];
    _mm256_store_ps(values, a), _mm256_store_ps(values + LANES, b);
    for (int i = 0; i < CHUNK; ++i)
      if (values[i] > value) value = values[i], column = first + i;
  }

  // Return the log-probability of the best column; -1 as a column says that nothing may be chosen.
  float log_prob() const { return column < 0 ? -std::numeric_limits<float>::infinity() : -std::log(sum_of(sum)); }
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
  Buffer<int8_t> weights;         // of all products, in the order in which they are used
  size_t packed = 0;
  const int8_t* embedding;        // (V, D)
  const float *embedding_scale, *segment_embedding;

  Model(const Sizes& given, const Kit& with, Arrays arrays) : sizes(given), kit(&with) {
    const int d = sizes.d, hidden = sizes.hidden;
    weights.need(n_weights());
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
    vocabulary.shape(with, d, sizes.places, room(size_t(d) * sizes.places));
    const float given_step = *arrays.take<float>();
    vocabulary.round_with(given_step, *arrays.take<uint8_t>());
    embedding = arrays.take<int8_t>(), embedding_scale = arrays.take<float>();
    segment_embedding = arrays.take<float>();
    const float step = vocabulary.rounding.step;
    for (int piece = 0; piece < sizes.places; ++piece) pack_piece(vocabulary, piece, piece, step, 0);
  }

  size_t n_weights() const {
    const size_t square = size_t(sizes.d) * sizes.d, feed_forward = size_t(2) * sizes.d * sizes.hidden;
    return sizes.encoder_layers * (4 * square + feed_forward) + sizes.decoder_layers * (8 * square + feed_forward) +
           size_t(sizes.d) * sizes.places;
  }

  int8_t* room(size_t n) {
    int8_t* at = weights.get() + packed;
    packed += n;
    return at;
  }

  Norm norm(Arrays& arrays) {
    const float* weight = arrays.take<float>();
    return {weight, arrays.take<float>()};
  }

  void product(Product& to, Arrays& arrays, int in, int out, int parts = 1) {
    to.shape(*kit, in, parts * out, room(size_t(in) * parts * out));
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

// ---- rows through the layers ----------------------------------------------------------------------------------------

// Keys and values of a sentence for every decoder layer: of its source, or of what has been written.
using Pasts = std::vector<Past>;

// A source that is read beside others.
struct Reading {
  const int32_t* tokens;
  int n;
  Pasts* into;
};

// New rows of a sentence, which are written beside those of others.
struct Part {
  const Pasts* from;  // its source
  Pasts* so_far;
  const int32_t *tokens, *segments;
  int n;
  const float* position;
};

// Rows of one sentence, and what they look at in the layer at work.
struct Span {
  int first, n;
  const Past* past;
};

// What a thread needs to let rows through the layers; it grows with the most of them.
struct Layers {
  const Model& model;
  const int d, heads;
  const float query_scale;
  std::vector<Past> sources;  // of the encoder's layer at work, a sentence each
  std::vector<Span> spans;
  std::vector<Door> doors;
  Buffer<float> x, queries, scores;
  Buffer<uint8_t> rows, hidden_rows;
  std::vector<Best> best;

  explicit Layers(const Model& of)
      : model(of), d(of.sizes.d), heads(of.sizes.heads), query_scale(1 / std::sqrt(float(d / heads))) {}

  // Have room for n rows that look at so many places.
  void make_room(size_t n, size_t places) {
    x.need(n * d), queries.need(n * d), scores.need(LOOKS * (places + LANES));
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

  // Let the next n rows take the next places of a past and look at it.
  void append(Past& past, int n) {
    spans.push_back({int(doors.size()), n, &past});
    for (int i = 0; i < n; ++i) doors.emplace_back(past, past.places++);
  }

  void begin_layer() { spans.clear(), doors.clear(); }

  void self_attention(const Layer& layer, int n, bool causal) {
    layer.attention_norm.round(x.get(), n, d, layer.qkv.rounding, rows.get());
    layer.qkv.multiply(rows.get(), n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      if (column < d) query(row, column, a, b);
      else if (column < 2 * d) doors[row].key(column - d, a, b);
      else doors[row].value(column - 2 * d, a, b);
    });
    look_around(causal, layer.output.rounding);
    add(layer.output, rows.get(), n);
  }

  void cross_attention(const Layer& layer, int n) {
    layer.cross_norm.round(x.get(), n, d, layer.cross_query.rounding, rows.get());
    layer.cross_query.multiply(rows.get(), n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      query(row, column, a, b);
    });
    look_around(false, layer.cross_output.rounding);
    add(layer.cross_output, rows.get(), n);
  }

  // Let the rows of each sentence look at what is theirs.
  void look_around(bool causal, const Rounding& rounding) {
    for (const Span& span : spans)
      attend(queries.get() + size_t(span.first) * d, span.n, *span.past, causal, heads, scores.get(), rounding,
             rows.get() + span.first * rounding.bytes(d));
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

  void encode(const std::vector<Reading>& readings, const float* positions) {
    int n = 0, longest = 0;
    for (const Reading& one : readings) n += one.n, longest = std::max(longest, one.n);
    make_room(n, longest);
    if (sources.size() < readings.size()) sources.resize(readings.size());
    int row = 0;
    for (size_t i = 0; i < readings.size(); ++i) {
      sources[i].room(d, readings[i].n);
      for (auto& past : *readings[i].into) past.room(d, readings[i].n), past.places = 0;
      for (int place = 0; place < readings[i].n; ++place, ++row)
        embed(row, readings[i].tokens[place], positions + size_t(place) * d, nullptr);
    }
    for (const Layer& layer : model.encoder) {
      begin_layer();
      for (size_t i = 0; i < readings.size(); ++i) sources[i].places = 0, append(sources[i], readings[i].n);
      self_attention(layer, n, false);
      feed_forward(layer, n);
    }
    model.encoder_norm.round(x.get(), n, d, model.memory.rounding, rows.get());
    begin_layer();
    for (size_t layer = 0; layer < model.decoder.size(); ++layer)
      for (const Reading& one : readings) append((*one.into)[layer], one.n);
    model.memory.multiply(rows.get(), n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      const Door& door = doors[column / (2 * d) * n + row];
      const int own = column % (2 * d);
      if (own < d) door.key(own, a, b);
      else door.value(own - d, a, b);
    });
  }

  // Let new rows through the decoder, and round them for the output matrix; return how many there are. Those of a
  // sentence have one position and see each other (`causal` false), or follow one another and see those before them.
  int decode(const std::vector<Part>& parts, bool causal) {
    int n = 0, places = 0;
    for (const Part& part : parts) {
      n += part.n;
      places = std::max({places, part.so_far->front().places + part.n, part.from->front().places});
    }
    make_room(n, places);
    int first = 0;
    for (const Part& part : parts) {
      for (int row = 0; row < part.n; ++row)
        embed(first + row, part.tokens[row], part.position + size_t(causal) * row * d,
              model.segment_embedding + size_t(part.segments[row]) * d);
      first += part.n;
    }
    for (size_t i = 0; i < model.decoder.size(); ++i) {
      begin_layer();
      for (const Part& part : parts) {
        Past& past = (*part.so_far)[i];
        past.room(d, past.places + part.n);
        append(past, part.n);
      }
      self_attention(model.decoder[i], n, causal);
      for (size_t j = 0; j < parts.size(); ++j) spans[j].past = &(*parts[j].from)[i];
      cross_attention(model.decoder[i], n);
      feed_forward(model.decoder[i], n);
    }
    model.decoder_norm.round(x.get(), n, d, model.vocabulary.rounding, rows.get());
    return n;
  }

  // Choose the best column of the output matrix for each of n rows from the first on, -1 where there is nothing to choose
  // from; `logits` (n, V) may be null.
  void choose(const Product& output, const float* bias, int first, int n, int32_t* chosen, float* log_probs,
              float* logits = nullptr) {
    for (int row = first; row < first + n; ++row) best[row].reset();
    if (log_probs) find_best<true>(output, bias, first, n, logits);
    else find_best<false>(output, bias, first, n, logits);
    for (int row = 0; row < n; ++row) {
      chosen[row] = best[first + row].column;
      if (log_probs) log_probs[row] = best[first + row].log_prob();
    }
  }

  // Return the log-probability of a piece for a row that has seen all of the vocabulary.
  float likely(const float* bias, int row, int32_t piece) const {
    const Product& output = model.vocabulary;
    const uint8_t* from = rows.get() + row * output.rounding.bytes(d);
    const int8_t* weights = model.embedding + size_t(piece) * d;
    int32_t sum = output.start[piece];
    for (int i = 0; i < d; ++i) {
      int16_t value = from[i];
      if (output.rounding.wide) std::memcpy(&value, from + 2 * i, sizeof value);
      sum += value * weights[i];
    }
    const float value = float(sum) * output.scale[piece] + bias[piece];
    return best[row].column < 0 ? value : value - best[row].value + best[row].log_prob();
  }

  template <bool SCORED>
  void find_best(const Product& output, const float* bias, int first, int n, float* logits) {
    Best* own = best.data() + first;
    const uint8_t* from = rows.get() + first * output.rounding.bytes(d);
    output.multiply(from, n, bias, [&](int row, int column, __m256 a, __m256 b) FLAT {
      own[row].see<SCORED>(column, a, b);
      if (!logits) return;
      float* to = logits + size_t(row) * output.out + column;
      _mm256_storeu_ps(to, a), _mm256_storeu_ps(to + LANES, b);
    });
  }
};

// ---- lists ----------------------------------------------------------------------------------------------------------

// Which pieces a source can become (engines/vocabulary.py:Shortlist); sets of pieces are bits.
struct Lists {
  int size, each, directions;        // V, n, T
  const int32_t *likeliest, *tags;   // (V, n) what each piece may become, (T) pieces that name a direction
  const uint64_t *common, *allowed;  // (T + 1, V) what is in every list of a direction, or of none; what may be at all

  size_t words() const { return (size_t(size) + 63) / 64; }

  // Return the pieces of a source in their order; none: all may be chosen, as these are more than half, or nothing.
  void of(const int32_t* source, int n, const int32_t* also, int n_also, std::vector<int32_t>& pieces) const {
    const uint64_t* own = common + (std::find(tags, tags + directions, source[0]) - tags) * words();
    std::vector<uint64_t> set(own, own + words());
    const auto put = [&](int32_t piece) { set[piece / 64] |= uint64_t(1) << piece % 64; };
    for (int i = 0; i < n; ++i) {
      if (source[i] >= size) continue;  // the vocabulary's padding
      const int32_t* becomes = likeliest + size_t(source[i]) * each;
      put(source[i]), std::for_each(becomes, becomes + each, put);
    }
    std::for_each(also, also + n_also, put);
    pieces.clear();
    for (size_t word = 0; word < set.size(); ++word)
      for (uint64_t left = set[word] & allowed[word]; left; left &= left - 1)
        pieces.push_back(int32_t(64 * word) + __builtin_ctzll(left));
    if (2 * pieces.size() > size_t(size)) pieces.clear();
  }
};

// ---- sentences ------------------------------------------------------------------------------------------------------

constexpr int BLOCK = 128;  // tokens that are read at a time, if no sentence is longer

// What is asked of a sentence, and where its answer goes; engines/native/model.py fills it in.
struct Task {
  const int32_t* source;  // (n)
  const int32_t* steps;   // (K) the most that each segment may take
  const float* bias;      // (V) added to logits
  const float* first;     // (V) the same in the first step
  const Pasts* memory;    // of its source; null: it is read
  int32_t* chosen;        // (K, T) what each segment got
  float* log_probs;       // (K, T), or null
  int32_t* lengths;       // (K) how much of it there is
  int32_t* taken;         // steps
  int64_t n, k;
};

// A sentence on its way, and room that the next one in its place uses again.
struct Place {
  const Task* task = nullptr;
  Pasts memory, written;
  Product list;  // the part of the vocabulary that a list names
  Buffer<int8_t> listed;
  std::vector<int32_t> pieces, tokens, segments;
  const Product* output = nullptr;
  const float* bias = nullptr;
  int step = 0;
  bool verifies = false;  // what it chooses from its list is to be met with the whole vocabulary
  Buffer<uint8_t> kept;   // the rows that chose, as the output matrix takes them
  int n_kept = 0;
  size_t bytes = 0;

  explicit Place(size_t layers) : memory(layers), written(layers) {}
  int open() const { return int(tokens.size()); }
  const Pasts* from() const { return task->memory ? task->memory : &memory; }

  // Return the bytes that it holds, and give them back.
  size_t held() const {
    size_t sum = listed.size + kept.size;
    for (const Pasts* pasts : {&memory, &written})
      for (const Past& past : *pasts) sum += (past.keys.size + past.values.size) * sizeof(float);
    return sum;
  }

  void empty() {
    memory = Pasts(memory.size()), written = Pasts(written.size());
    list = Product(), listed = Buffer<int8_t>(), kept = Buffer<uint8_t>();
  }
};

// What is done about pieces that are better than those of a list: nothing, they are looked for and take their places, or
// they are looked for alone, to time models that have learnt nothing.
enum Verifying { NEVER, ALWAYS, IN_VAIN };

// All that is asked of a thread at a time.
struct Asked {
  const Task *next, *end;
  const float* positions;
  const Lists* lists;  // or null
  int room;            // T, of what is written
  int rows;            // while fewer go through together, another sentence begins
  size_t bytes;        // the most that sentences keep together, if there is more than one
  Verifying verifying;
};

// What a thread writes sentences with.
struct Work {
  Layers layers;
  Asked asked{};
  std::vector<std::unique_ptr<Place>> places;
  std::vector<Place*> idle, waiting, active;  // waiting: read, and not begun; the last one is the next
  std::vector<Reading> readings;
  std::vector<Part> parts;
  std::vector<int32_t> found;
  std::vector<float> scores;

  explicit Work(const Model& model) : layers(model) {}

  void begin(const Asked& what) {
    asked = what;
    waiting.clear(), active.clear(), idle.clear();
    for (auto& place : places) idle.push_back(place.get());
  }

  // Take so many steps at most; return how many sentences are under way.
  size_t go_on(int steps) {
    for (fill(); steps && !active.empty(); --steps) take_step(), fill();
    return active.size() + waiting.size();
  }

  int rows_now() const {
    int n = 0;
    for (const Place* place : active) n += place->open();
    return n;
  }

  // Return what a sentence keeps while it is written, at most.
  size_t bytes_of(const Task& task) const {
    const Model& model = layers.model;
    size_t rows = 0, list = asked.lists ? asked.lists->size / 2 + WIDEST : 0;
    for (int segment = 0; segment < task.k; ++segment) rows += std::max(1, task.steps[segment]);
    const size_t pasts = Past::bytes(layers.d, rows) + (task.memory ? 0 : Past::bytes(layers.d, task.n));
    const size_t kept = asked.lists && asked.verifying ? 3 * rows * layers.d : 0;
    return model.decoder.size() * pasts + list * (layers.d + 3 * sizeof(float)) * 3 / 2 + kept;
  }

  size_t bytes_now() const {
    size_t sum = 0;
    for (const auto* group : {&active, &waiting})
      for (const Place* place : *group) sum += place->bytes;
    return sum;
  }

  // Let sentences begin while there is room for their rows.
  void fill() {
    while (!waiting.empty() || asked.next != asked.end) {
      if (rows_now() >= asked.rows) return;
      if (waiting.empty() && !active.empty() && bytes_now() + bytes_of(*asked.next) > asked.bytes) return;
      if (waiting.empty()) read();
      start(*waiting.back());
      active.push_back(waiting.back());
      waiting.pop_back();
    }
  }

  // Read the next sentence, and those after it that fit beside it.
  void read() {
    readings.clear();
    int rows = 0;
    size_t bytes = bytes_now();
    for (; asked.next != asked.end; ++asked.next) {
      const Task& task = *asked.next;
      const size_t own = bytes_of(task);
      if (!waiting.empty() && (rows + int(task.n) > BLOCK || bytes + own > asked.bytes)) break;
      rows += int(task.n), bytes += own;
      Place& place = take_place();
      place.task = &task, place.bytes = std::max(own, place.held());
      waiting.push_back(&place);
      if (!task.memory) readings.push_back({task.source, int(task.n), &place.memory});
    }
    std::reverse(waiting.begin(), waiting.end());
    if (!readings.empty()) layers.encode(readings, asked.positions);
  }

  Place& take_place() {
    if (idle.empty()) {
      places.push_back(std::make_unique<Place>(layers.model.decoder.size()));
      idle.push_back(places.back().get());
    }
    Place& place = *idle.back();
    idle.pop_back();
    return place;
  }

  void start(Place& place) {
    const Task& task = *place.task;
    place.pieces.clear();
    if (asked.lists) asked.lists->of(task.source, int(task.n), nullptr, 0, place.pieces);
    place.output = place.pieces.empty() ? &layers.model.vocabulary : &cut(place);
    place.verifies = asked.verifying && !place.pieces.empty(), place.n_kept = 0;
    add_bias(place, task.first);
    for (auto& past : place.written) past.places = 0;
    open_all(place);
  }

  void open_all(Place& place) {
    const Task& task = *place.task;
    place.tokens.assign(task.k, BOS), place.segments.resize(task.k), place.step = 0;
    for (int segment = 0; segment < task.k; ++segment) place.segments[segment] = segment, task.lengths[segment] = 0;
  }

  // Cut the output matrix: only the pieces of a list may be chosen.
  const Product& cut(Place& place) {
    const Product& whole = layers.model.vocabulary;
    Product& list = place.list;
    const int n = int(place.pieces.size()), size = (n + WIDEST - 1) / WIDEST * WIDEST;
    place.listed.need(size_t(whole.in) * size);
    list.shape(*whole.kit, whole.in, size, place.listed.get());
    list.rounding = whole.rounding;
    for (int at = 0; at < size; at += 4) {
      const int8_t* from[4];
      for (int i = at + AHEAD; i < std::min(n, at + AHEAD + 4); ++i)
        for (int byte = 0; byte < whole.in; byte += 64)
          _mm_prefetch(layers.model.embedding + size_t(place.pieces[i]) * whole.in + byte, _MM_HINT_T0);
      for (int i = 0; i < 4; ++i) {
        const int piece = at + i < n ? place.pieces[at + i] : PAD;
        from[i] = layers.model.embedding + size_t(piece) * whole.in;
        list.scale[at + i] = whole.scale[piece], list.start[at + i] = whole.start[piece];
        list.bias[at + i] = -std::numeric_limits<float>::infinity();
      }
      list.pack_four(at, from);
    }
    return list;
  }

  // Let what may be chosen follow a bias from now on.
  void add_bias(Place& place, const float* bias) {
    place.bias = place.pieces.empty() ? bias : place.list.bias.get();
    for (size_t at = 0; at < place.pieces.size(); ++at) place.list.bias[at] = bias[place.pieces[at]];
  }

  // Let all open segments write a token.
  void take_step() {
    parts.clear();
    for (Place* place : active)
      parts.push_back({place->from(), &place->written, place->tokens.data(), place->segments.data(), place->open(),
                       asked.positions + size_t(place->step) * layers.d});
    const int n = layers.decode(parts, false);
    if (found.size() < size_t(n)) found.resize(n), scores.resize(n);
    choose();
    int first = 0;
    for (Place* place : active) {
      const int rows = place->open();
      if (place->verifies) keep(*place, first, rows);
      note(*place, found.data() + first, scores.data() + first);
      first += rows;
    }
    for (Place* place : active)
      if (place->verifies && !place->open()) verify(*place);
    const auto goes_on = [](const Place* place) { return place->open() > 0; };
    const auto ended = std::stable_partition(active.begin(), active.end(), goes_on);
    for (auto place = ended; place != active.end(); ++place) leave(**place);
    active.erase(ended, active.end());
  }

  // Choose the best piece of each row; sentences that choose from the same do it together.
  void choose() {
    int first = 0;
    for (size_t i = 0; i < active.size();) {
      const Place& own = *active[i];
      int n = 0;
      for (; i < active.size() && active[i]->output == own.output && active[i]->bias == own.bias; ++i)
        n += active[i]->open();
      layers.choose(*own.output, own.bias, first, n, found.data() + first,
                    own.task->log_probs ? scores.data() + first : nullptr);
      first += n;
    }
  }

  // Note what the segments of a sentence have got; those that have not ended stay open, and who had no choice ends.
  void note(Place& place, const int32_t* columns, const float* log_probs) {
    const Task& task = *place.task;
    int open = 0;
    for (int row = 0; row < place.open(); ++row) {
      const int segment = place.segments[row];
      const int column = columns[row];
      const int token = column < 0 ? EOS : place.pieces.empty() ? column : place.pieces[column];
      const size_t at = size_t(segment) * asked.room + task.lengths[segment]++;
      task.chosen[at] = token;
      if (task.log_probs) task.log_probs[at] = log_probs[row];
      if (token > LARGEST_SPECIAL && place.step + 1 < task.steps[segment])
        place.tokens[open] = token, place.segments[open++] = segment;
    }
    place.tokens.resize(open), place.segments.resize(open);
    if (!place.step++ && task.first != task.bias) add_bias(place, task.bias);
  }

  // Keep rows that have chosen.
  void keep(Place& place, int first, int n) {
    const size_t bytes = layers.model.vocabulary.rounding.bytes(layers.d);
    place.kept.need((place.n_kept + n) * bytes);
    std::memcpy(place.kept.get() + place.n_kept * bytes, layers.rows.get() + first * bytes, n * bytes);
    place.n_kept += n;
  }

  // Meet all that chose from a list with the whole vocabulary; where that has a better piece, go on after it from there.
  void verify(Place& place) {
    const Task& task = *place.task;
    const Product& whole = layers.model.vocabulary;
    const int n = place.n_kept, first = task.first == task.bias ? 0 : int(task.k);  // all segments take the first step
    if (found.size() < size_t(n)) found.resize(n), scores.resize(n);
    layers.make_room(n, 0);
    std::memcpy(layers.rows.get(), place.kept.get(), n * whole.rounding.bytes(layers.d));
    float* log_probs = task.log_probs ? scores.data() : nullptr;
    if (first) layers.choose(whole, task.first, 0, first, found.data(), log_probs);
    layers.choose(whole, task.bias, first, n - first, found.data() + first, log_probs ? log_probs + first : nullptr);
    place.verifies = false;
    if (asked.verifying == IN_VAIN) return;
    place.pieces.clear(), place.output = &whole;
    add_bias(place, task.first);
    open_all(place);
    for (int row = 0; row < n;) {
      const bool stands = has(place, found.data() + row);
      const int* step = found.data() + row;
      row += place.open();
      note(place, step, scores.data() + (step - found.data()));
      for (auto& past : place.written) past.places = row;
      if (!stands) return;
    }
  }

  // Say whether what the open segments have chosen in this step is what these columns say.
  bool has(const Place& place, const int32_t* columns) const {
    for (int row = 0; row < place.open(); ++row) {
      const int32_t* chosen = place.task->chosen + size_t(place.segments[row]) * asked.room;
      if (chosen[place.step] != (columns[row] < 0 ? EOS : columns[row])) return false;
    }
    return true;
  }

  // Let a sentence go; places that nobody uses keep no more than may be kept of sentences.
  void leave(Place& place) {
    *place.task->taken = place.step;
    size_t held = place.held();
    for (const Place* other : idle) held += other->held();
    if (held > asked.bytes) place.empty();
    idle.push_back(&place);
  }
};

}  // namespace

extern "C" {

// Say whether a kit of this number runs here; nullptr: there is no such kit, "": it does not run.
const char* rs_kit(int kit) { return kit < 0 || kit > 3 ? nullptr : runs(kit) ? KITS[kit].name : ""; }

// Read a model's arrays, which have to stay where they are; nullptr: no memory, or sizes that are not supported.
void* rs_model(const int32_t* sizes, int kit, const void* const* arrays) try {
  const auto odd = [](int size) { return size < 1 || size % WIDEST; };
  const auto deep = [](int size) { return size > DEEPEST; };
  const Sizes s{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]};
  if (!runs(kit) || odd(s.d) || odd(s.hidden) || odd(s.places) || deep(s.d) || deep(s.hidden)) return nullptr;
  if (s.heads < 1 || s.d % s.heads || s.d / s.heads % CHUNK) return nullptr;
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
  Layers& w = static_cast<Work*>(work)->layers;
  w.make_room(n, n);
  const auto run = [&](const Product& product) {
    product.multiply(w.hidden_rows.get(), n, [&](int row, int column, __m256 a, __m256 b) FLAT {
      w.best[row].see<false>(column, a, b);
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

// Which pieces a source can become, of arrays that have to stay where they are.
void* rs_lists(const int32_t* sizes, const int32_t* likeliest, const int32_t* tags, const uint64_t* common,
               const uint64_t* allowed) try {
  return new Lists{sizes[0], sizes[1], sizes[2], likeliest, tags, common, allowed};
} catch (const std::exception&) {
  return nullptr;
}

void rs_lists_free(void* lists) { delete static_cast<Lists*>(lists); }

// Return how many pieces a source (n) can become, and pieces that are forced; `pieces` (V / 2) gets them.
int rs_pieces(const void* lists, const int32_t* source, int n, const int32_t* also, int n_also, int32_t* pieces) try {
  std::vector<int32_t> found;
  static_cast<const Lists*>(lists)->of(source, n, also, n_also, found);
  std::copy(found.begin(), found.end(), pieces);
  return int(found.size());
} catch (const std::exception&) {
  return -1;
}

// Read a source; `memory` gets its keys and values. Returns -1 if there is no memory, as do the others.
int rs_encode(void* work, void* memory, const int32_t* source, int n, const float* positions) try {
  static_cast<Work*>(work)->layers.encode({{source, n, static_cast<Pasts*>(memory)}}, positions);
  return 0;
} catch (const std::exception&) {
  return -1;
}

// Append rows to several sentences: counts[i] after the first keeps[i], which stand at `position` side by side or, if
// `causal`, one after the other. biases[i] (V) is added to logits. `tokens`, `segments` and `chosen`, which gets the best
// piece of each row, are those of all (N); `log_probs` (N) and `logits` (N, V) may be null, and so may `given` (N),
// pieces that get log-probabilities in `likely` (N): those need `log_probs`.
int rs_rows(void* work, const void* const* memories, void* const* written, const int32_t* keeps, const int32_t* counts,
            int sentences, const int32_t* tokens, const int32_t* segments, const float* position, int causal,
            const float* const* biases, int32_t* chosen, float* log_probs, float* logits, const int32_t* given,
            float* likely) try {
  Work& w = *static_cast<Work*>(work);
  w.parts.clear();
  for (int i = 0, first = 0; i < sentences; first += counts[i++]) {
    Pasts& so_far = *static_cast<Pasts*>(written[i]);
    const int kept = keeps[i];
    for (auto& past : so_far) past.places = kept;
    w.parts.push_back({static_cast<const Pasts*>(memories[i]), &so_far, tokens + first, segments + first, counts[i],
                       position});
  }
  w.layers.decode(w.parts, causal);
  const Product& output = w.layers.model.vocabulary;
  for (int i = 0, first = 0; i < sentences;) {
    const float* bias = biases[i];
    int n = 0;
    for (; i < sentences && biases[i] == bias; ++i) n += counts[i];
    w.layers.choose(output, bias, first, n, chosen + first, log_probs ? log_probs + first : nullptr,
                    logits ? logits + size_t(first) * output.out : nullptr);
    for (int row = first; row < first + n; ++row) {
      chosen[row] = chosen[row] < 0 ? EOS : chosen[row];  // had no choice
      if (given) likely[row] = w.layers.likely(bias, row, given[row]);
    }
    first += n;
  }
  return 0;
} catch (const std::exception&) {
  return -1;
}

// Begin to write n sentences. While there are fewer than so many `rows` side by side another one begins, as long as no
// more `bytes` are kept of all. Of each segment there is `room` for so many tokens. `positions` are as many as the longest
// source has tokens, or the longest segment may take steps; `lists` may be null; `verifying` is one of Verifying.
int rs_begin(void* work, const void* tasks, int n, const float* positions, const void* lists, int room, int rows,
             int64_t bytes, int verifying) try {
  const Task* first = static_cast<const Task*>(tasks);
  static_cast<Work*>(work)->begin({first, first + n, positions, static_cast<const Lists*>(lists), room, rows,
                                   size_t(bytes), Verifying(verifying)});
  return 0;
} catch (const std::exception&) {
  return -1;
}

// Go on for so many steps; returns how many sentences are under way, 0: all are written.
int rs_go_on(void* work, int steps) try {
  return int(static_cast<Work*>(work)->go_on(steps));
} catch (const std::exception&) {
  return -1;
}
}
