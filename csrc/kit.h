// The interface between the flow of the model, compiled once for any processor, and the kits: the same functions compiled
// for one family of processors each. Every kit returns the same bits: sums of products of integers are exact, sums of
// floats are defined over 16 lanes with one order of additions (vector.h).
//
// bind.cpp is the Python module, decode.cpp writes sentences side by side, transformer.cpp runs the layers, model.cpp
// checks the weights, shortlist.cpp finds shortlists, dispatch.cpp lists the kits that the processor runs. A kit is one
// kernels_*.cpp with its own flags: vector.h and layers.h at its width, and its own integer products.
//
// Weights of a linear map are packed as (out / 16, in / 4, 16, 4): tiles of 16 columns, groups of 4 inputs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace recoversat {

constexpr int LANES = 16;   // floats of a vector, columns of a tile, positions of a block of the KV cache
constexpr int GROUP = 4;    // inputs that lie side by side in packed weights
constexpr int UNIT = 32;    // every size of a linear map is a multiple of this
constexpr int MAX_INPUTS = 1 << 16;     // 32-bit sums hold 255 * -128 for so many inputs
constexpr int MAX_ATTENDING = 5;        // queries of one head that a kernel attends with at once

// How floats become the 8-bit inputs of a linear map: round(x / step) + zero, clamped to 0..255.
struct Rounding {
  float inverse = 1, low = 0, high = 255;  // 1 / step, and the clamped range before the zero point is added
  int zero = 0;

  Rounding() = default;
  Rounding(float step, int zero_point)
      : inverse(1 / step), low(float(-zero_point)), high(float(255 - zero_point)), zero(zero_point) {}
};

// How a kit stores rounded inputs: as they are, minus 128, or as 16 bits without the zero point.
enum class RowFormat { U8, S8, S16 };

struct Linear {
  int in = 0, out = 0;
  Rounding rounding;
  const int8_t* weights = nullptr;  // packed
  const float* scale = nullptr;     // (out) of the integer sums
  const float* bias = nullptr;      // (out)
  const int32_t* start = nullptr;   // (out) initial values of the sums: the correction for the zero point
};

// Where the key and the value of one row go in a KV cache.
struct Slot {
  float *keys, *values;
};

// The KV cache of one layer, in blocks of 16 positions: keys as (D, 16), values as (D / 16, 16 positions, 16 columns).
struct CacheView {
  const float *keys, *values;
  int d, positions;
};

// The best column of a row so far (of equals the first), and the sums of exp(logit - best) by lane.
struct alignas(64) Best {
  float sum[LANES];
  float value;
  int32_t column;  // -1: every logit was -inf
};

struct Kit {
  const char* name;
  RowFormat format;

  // Write the sums of the weights of every column; `ones` is a row of ones in the format of the kit.
  void (*column_sums)(const Linear&, const uint8_t* ones, int32_t* sums);
  // Pack 16 rows of `in` weights into a tile.
  void (*pack)(const int8_t* const* rows, int in, int8_t* tile);
  // x = weights * factor + position + segment (may be null).
  void (*embed)(const int8_t* weights, float factor, const float* position, const float* segment, int d, float* x);
  // Normalise rows (N, D) and round them.
  void (*norm)(const float* x, int n, int d, const float* weight, const float* bias, const Rounding&, uint8_t* rows);
  // Project rows to queries, and to keys and values where the map has 3 * D outputs; queries are scaled.
  void (*project)(const Linear&, const uint8_t* rows, int n, float query_scale, float* queries, const Slot* slots);
  // Project encoder output to keys and values of every decoder layer; slots are (L, N).
  void (*project_memory)(const Linear&, const uint8_t* rows, int n, const Slot* slots);
  // x += linear(rows).
  void (*add_residual)(const Linear&, const uint8_t* rows, int n, float* x);
  // Round relu(linear(rows)).
  void (*relu)(const Linear&, const uint8_t* rows, int n, const Rounding&, uint8_t* out);
  // Attend with n queries of one sentence to all positions, or (`causal`) each query to one position more than the query
  // before it and the last to all; round the result. `scores` has room for MAX_ATTENDING rows of whole blocks.
  void (*attend)(const float* queries, int n, const CacheView&, bool causal, int heads, float* scores, const Rounding&,
                 uint8_t* rows);
  // Find the best column of every row; `scored` asks for sums of exponentials, `logits` (N, out) may be null.
  void (*choose)(const Linear&, const uint8_t* rows, int n, const float* bias, bool scored, Best* best, float* logits);

  size_t row_bytes(int values) const { return size_t(values) * (format == RowFormat::S16 ? 2 : 1); }
};

// Return log(sum of exp(logit - best)), in the order of additions that all kits have.
float log_sum(const Best& best);

// Return the kits that this processor runs, the fastest first; the list ends with null.
const Kit* const* usable_kits();

}  // namespace recoversat
