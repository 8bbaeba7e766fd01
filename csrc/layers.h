// The parts of a layer, which every kit compiles at its own width. A kit defines MAX_ROWS, BLOCK (columns of a block of
// sums) and Products before it includes this header:
//
//   Products(const Linear&, int n)      prepare for products of n rows
//   columns                             how many columns `sums` handles, at most BLOCK
//   most                                how many rows `sums` handles, at most MAX_ROWS
//   sums(rows, n, weights, columns, start, next, buffer)
//                                       write sums of n rows as (n, BLOCK); return where the first row lies
#pragma once

#include "vector.h"

namespace recoversat {
namespace {

// Multiply rows and call sink(row, column, values) for 16 columns at a time.
template <class Sink>
INLINE void multiply(const Linear& map, const uint8_t* rows, int n, const float* bias, Sink&& sink) {
  alignas(64) int32_t buffer[MAX_ROWS * BLOCK];
  Products products(map, n);
  const size_t stride = size_t(map.in) * ROW_BYTES;
  const int parts = (n + products.most - 1) / products.most;
  for (int first = 0; first < map.out; first += products.columns) {
    const int columns = map.out - first < products.columns ? map.out - first : products.columns;
    const int8_t* weights = map.weights + size_t(first) * map.in;
    for (int part = parts, row = 0; part; --part) {
      const int count = (n - row + part - 1) / part;
      const size_t next = part == parts ? size_t(columns) * map.in : 0;  // the block of weights to prefetch
      const int32_t* sums =
          products.sums(rows + row * stride, count, weights, columns, map.start + first, next, buffer);
      for (int at = 0; at < columns; at += LANES) {
        const Vec scale = load(map.scale + first + at), added = load(bias + first + at);
        for (int r = 0; r < count; ++r)
          sink(row + r, first + at, fma(from_ints(sums + r * BLOCK + at), scale, added));
      }
      row += count;
    }
  }
}

void column_sums(const Linear& map, const uint8_t* ones, int32_t* sums) {
  alignas(64) const int32_t zeros[BLOCK] = {};
  alignas(64) int32_t buffer[MAX_ROWS * BLOCK];
  Products products(map, 1);
  for (int first = 0; first < map.out; first += products.columns) {
    const int columns = map.out - first < products.columns ? map.out - first : products.columns;
    std::memcpy(sums + first, products.sums(ones, 1, map.weights + size_t(first) * map.in, columns, zeros, 0, buffer),
                size_t(columns) * sizeof(int32_t));
  }
}

void pack(const int8_t* const* rows, int in, int8_t* tile) {
#if defined(KIT_AVX512) || defined(KIT_AVX2)
  for (int column = 0; column < LANES; column += 4, tile += 16)
    for (int i = 0; i < in; i += 16) {
      __m128 a = _mm_loadu_ps(reinterpret_cast<const float*>(rows[column] + i));
      __m128 b = _mm_loadu_ps(reinterpret_cast<const float*>(rows[column + 1] + i));
      __m128 c = _mm_loadu_ps(reinterpret_cast<const float*>(rows[column + 2] + i));
      __m128 d = _mm_loadu_ps(reinterpret_cast<const float*>(rows[column + 3] + i));
      _MM_TRANSPOSE4_PS(a, b, c, d);
      float* to = reinterpret_cast<float*>(tile + size_t(i) * LANES);
      _mm_store_ps(to, a), _mm_store_ps(to + 16, b), _mm_store_ps(to + 32, c), _mm_store_ps(to + 48, d);
    }
#else
  for (int i = 0; i < in; i += GROUP)
    for (int column = 0; column < LANES; ++column, tile += GROUP) std::memcpy(tile, rows[column] + i, GROUP);
#endif
}

void embed(const int8_t* weights, float factor, const float* position, const float* segment, int d, float* x) {
  for (int i = 0; i < d; i += LANES) {
    const Vec place = segment ? add(load(segment + i), load(position + i)) : load(position + i);
    store(x + i, fma(from_bytes(weights + i), set(factor), place));
  }
}

// Normalise R rows side by side, since each sum waits for the addition before it.
template <int R>
void norm_rows(const float* x, int d, const float* weight, const float* bias, const Rounding& rounding, uint8_t* out) {
  Vec total[R], square[R], mean[R];
  UNROLL
  for (int r = 0; r < R; ++r) total[r] = square[r] = set(0);
  for (int i = 0; i < d; i += LANES) {
    UNROLL
    for (int r = 0; r < R; ++r) total[r] = add(total[r], load(x + r * d + i));
  }
  UNROLL
  for (int r = 0; r < R; ++r) mean[r] = set(sum(total[r]) / float(d));
  for (int i = 0; i < d; i += LANES) {
    UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec deviation = sub(load(x + r * d + i), mean[r]);
      square[r] = fma(deviation, deviation, square[r]);
    }
  }
  for (int r = 0; r < R; ++r, x += d, out += size_t(d) * ROW_BYTES) {
    const Vec factor = set(1 / __builtin_sqrtf(sum(square[r]) / float(d) + 1e-5f));
    for (int i = 0; i < d; i += LANES) {
      const Vec unit = mul(sub(load(x + i), mean[r]), factor);
      round_to(fma(unit, load(weight + i), load(bias + i)), rounding, out + i * ROW_BYTES);
    }
  }
}

void norm(const float* x, int n, int d, const float* weight, const float* bias, const Rounding& rounding, uint8_t* out) {
  int row = 0;
  const size_t size = size_t(d);
  for (; row + 4 <= n; row += 4) norm_rows<4>(x + row * size, d, weight, bias, rounding, out + row * size * ROW_BYTES);
  for (; row < n; ++row) norm_rows<1>(x + row * size, d, weight, bias, rounding, out + row * size * ROW_BYTES);
}

INLINE void store_key(const Slot& slot, int column, Vec a) {
  alignas(64) float values[LANES];
  store(values, a);
  for (int i = 0; i < LANES; ++i) slot.keys[(column + i) * LANES] = values[i];
}

INLINE void store_value(const Slot& slot, int column, Vec a) { store(slot.values + column * LANES, a); }

void project(const Linear& map, const uint8_t* rows, int n, float query_scale, float* queries, const Slot* slots) {
  const int d = map.in;
  multiply(map, rows, n, map.bias, [&](int row, int column, Vec a) FLAT {
    if (column < d) store(queries + size_t(row) * d + column, mul(a, set(query_scale)));
    else if (column < 2 * d) store_key(slots[row], column - d, a);
    else store_value(slots[row], column - 2 * d, a);
  });
}

void project_memory(const Linear& map, const uint8_t* rows, int n, const Slot* slots) {
  const int d = map.in;
  multiply(map, rows, n, map.bias, [&](int row, int column, Vec a) FLAT {
    const Slot& slot = slots[size_t(column / (2 * d)) * n + row];
    column %= 2 * d;
    if (column < d) store_key(slot, column, a);
    else store_value(slot, column - d, a);
  });
}

void add_residual(const Linear& map, const uint8_t* rows, int n, float* x) {
  multiply(map, rows, n, map.bias, [&](int row, int column, Vec a) FLAT {
    float* to = x + size_t(row) * map.out + column;
    store(to, add(load(to), a));
  });
}

void relu(const Linear& map, const uint8_t* rows, int n, const Rounding& given, uint8_t* out) {
  Rounding rounding = given;
  rounding.low = rounding.low > 0 ? rounding.low : 0;
  multiply(map, rows, n, map.bias, [&](int row, int column, Vec a) FLAT {
    round_to(a, rounding, out + (size_t(row) * map.out + column) * ROW_BYTES);
  });
}

// Compute the scores of Q queries for B blocks of positions.
template <int Q, int B>
INLINE void score(const float* query, int d, int head_size, const float* keys, float* scores, size_t stride) {
  Vec total[Q][B];
  UNROLL
  for (int q = 0; q < Q; ++q) {
    UNROLL
    for (int b = 0; b < B; ++b) total[q][b] = set(0);
  }
  for (int e = 0; e < head_size; ++e) {
    Vec key[B];
    UNROLL
    for (int b = 0; b < B; ++b) key[b] = load(keys + (size_t(b) * d + e) * LANES);
    UNROLL
    for (int q = 0; q < Q; ++q) {
      const Vec value = set(query[size_t(q) * d + e]);
      UNROLL
      for (int b = 0; b < B; ++b) total[q][b] = fma(value, key[b], total[q][b]);
    }
  }
  UNROLL
  for (int q = 0; q < Q; ++q) {
    UNROLL
    for (int b = 0; b < B; ++b) store(scores + q * stride + b * LANES, total[q][b]);
  }
}

// Turn scores into softmax weights without their common factor, and return that; positions from `end` on are hidden.
INLINE float softmax(float* scores, int end, int blocks) {
  for (int block = end / LANES; block < blocks; ++block) {
    float* at = scores + block * LANES;
    store(at, replace_from(load(at), end - block * LANES, -INFINITE));
  }
  Vec most = load(scores), total = set(0);
  for (int block = 1; block < blocks; ++block) most = max(most, load(scores + block * LANES));
  most = set(largest(most));
  for (int block = 0; block < blocks; ++block) {
    const Vec weight = exp_of(sub(load(scores + block * LANES), most));
    store(scores + block * LANES, weight);
    total = add(total, weight);
  }
  return 1 / sum(total);
}

// Add up C * 16 columns of the values of all positions, weighted for Q queries, and round them.
template <int Q, int C>
INLINE void weighted_values(const float* weights, size_t stride, const float* factor, const CacheView& cache, int column,
                            const Rounding& rounding, uint8_t* out) {
  const size_t d = size_t(cache.d);
  Vec total[Q][C];
  UNROLL
  for (int q = 0; q < Q; ++q) {
    UNROLL
    for (int c = 0; c < C; ++c) total[q][c] = set(0);
  }
  const float* block = cache.values + column * LANES;
  for (int first = 0; first < cache.positions; first += LANES, block += d * LANES) {
    const int end = cache.positions - first < LANES ? cache.positions - first : LANES;
    for (int position = 0; position < end; ++position) {
      Vec value[C];
      UNROLL
      for (int c = 0; c < C; ++c) value[c] = load(block + (c * LANES + position) * LANES);
      UNROLL
      for (int q = 0; q < Q; ++q) {
        const Vec weight = set(weights[q * stride + first + position]);
        UNROLL
        for (int c = 0; c < C; ++c) total[q][c] = fma(weight, value[c], total[q][c]);
      }
    }
  }
  UNROLL
  for (int q = 0; q < Q; ++q) {
    UNROLL
    for (int c = 0; c < C; ++c)
      round_to(mul(total[q][c], set(factor[q])), rounding, out + (q * d + column + c * LANES) * ROW_BYTES);
  }
}

#ifdef KIT_AVX512
constexpr int VECTORS = 20;  // that stay in registers as sums
#elif defined(KIT_AVX2)
constexpr int VECTORS = 5;
#else
constexpr int VECTORS = 5;
#endif

// Return how many blocks, or groups of columns, Q queries are computed for side by side.
constexpr int width_for(int q) { return 4 * q <= VECTORS ? 4 : 2 * q <= VECTORS ? 2 : 1; }

template <int N>
struct Group {
  static constexpr int size = N;
};

// Call work(first, group) for n things in groups of W, and for what remains in smaller ones.
template <int W, class Work>
INLINE void in_groups(int n, Work&& work, int first = 0) {
  for (; first + W <= n; first += W) work(first, Group<W>());
  if constexpr (W > 1) in_groups<W / 2>(n, work, first);
}

// Let Q queries of one head attend: the first to `end` positions, each of the others to `more` than the one before. Hidden
// positions weigh exactly 0, so that results are those of the visible positions alone.
template <int Q>
void attend_head(const float* queries, const CacheView& cache, int end, int more, int head, int head_size, float* scores,
                 const Rounding& rounding, uint8_t* out) {
  constexpr int W = width_for(Q);
  const int d = cache.d, blocks = (cache.positions + LANES - 1) / LANES, first = head * head_size;
  const size_t stride = size_t(blocks) * LANES, block_size = size_t(d) * LANES;
  const float* keys = cache.keys + size_t(first) * LANES;
  queries += first;
  in_groups<W>(blocks, [&](int b, auto group) FLAT {
    score<Q, group.size>(queries, d, head_size, keys + b * block_size, scores + b * LANES, stride);
  });
  float factor[Q];
  for (int q = 0; q < Q; ++q) {
    float* weights = scores + q * stride;
    factor[q] = softmax(weights, end + q * more, blocks);
    for (int position = end + q * more; position < cache.positions; ++position) weights[position] = 0;
  }
  in_groups<W>(head_size / LANES, [&](int c, auto group) FLAT {
    weighted_values<Q, group.size>(scores, stride, factor, cache, first + c * LANES, rounding, out);
  });
}

void attend(const float* queries, int n, const CacheView& cache, bool causal, int heads, float* scores,
            const Rounding& rounding, uint8_t* out) {
  const int head_size = cache.d / heads, first = cache.positions - causal * (n - 1);
  for (int head = 0; head < heads; ++head) {
    int q = 0;
    for (int parts = (n + MAX_ATTENDING - 1) / MAX_ATTENDING; parts; --parts) {
      const int count = (n - q + parts - 1) / parts, end = first + causal * q;
      const float* some = queries + size_t(q) * cache.d;
      uint8_t* to = out + size_t(q) * cache.d * ROW_BYTES;
      switch (count) {
        case 1: attend_head<1>(some, cache, end, causal, head, head_size, scores, rounding, to); break;
        case 2: attend_head<2>(some, cache, end, causal, head, head_size, scores, rounding, to); break;
        case 3: attend_head<3>(some, cache, end, causal, head, head_size, scores, rounding, to); break;
        case 4: attend_head<4>(some, cache, end, causal, head, head_size, scores, rounding, to); break;
        default: attend_head<5>(some, cache, end, causal, head, head_size, scores, rounding, to);
      }
      q += count;
    }
  }
}

__attribute__((noinline)) void take_better(Best& best, int first, const float* values) {
  for (int i = 0; i < LANES; ++i)
    if (values[i] > best.value) best.value = values[i], best.column = first + i;
}

// Compare 16 columns with the best one so far; hardly ever is one of them better.
template <bool SCORED>
INLINE void compare(Best& best, int column, Vec a) {
  if (any_greater(a, set(best.value))) {
    alignas(64) float values[LANES];
    store(values, a);
    const float before = best.value;
    take_better(best, column, values);
    if (SCORED) store(best.sum, mul(load(best.sum), exp_of(set(before - best.value))));
  }
  if (SCORED) store(best.sum, add(load(best.sum), exp_of(sub(a, set(best.value)))));
}

void choose(const Linear& map, const uint8_t* rows, int n, const float* bias, bool scored, Best* best, float* logits) {
  for (int row = 0; row < n; ++row) {
    best[row].value = -__FLT_MAX__, best[row].column = -1;
    store(best[row].sum, set(0));
  }
  if (!scored && !logits) {
    multiply(map, rows, n, bias, [&](int row, int column, Vec a) FLAT { compare<false>(best[row], column, a); });
    return;
  }
  multiply(map, rows, n, bias, [&](int row, int column, Vec a) FLAT {
    if (scored) compare<true>(best[row], column, a);
    else compare<false>(best[row], column, a);
    if (logits) store(logits + size_t(row) * map.out + column, a);
  });
}

}  // namespace

#define DEFINE_KIT(variable, name)                                                                              \
  extern const Kit variable;                                                                                    \
  const Kit variable = {name,  FORMAT, column_sums,  pack, embed,  norm, project, project_memory, add_residual, \
                        relu, attend, choose}

}  // namespace recoversat
