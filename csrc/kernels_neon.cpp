// NEON with dot products (ARMv8.2): s8 rows, which lack 128, times s8 weights.
#include "vector.h"

namespace recoversat {
namespace {

constexpr int MAX_ROWS = 4, BLOCK = LANES;

using DotKernel = void (*)(const int8_t* rows, const int8_t* weights, int in, const int32_t* start, int32_t* sums);

template <int R>
void dot(const int8_t* rows, const int8_t* weights, int in, const int32_t* start, int32_t* sums) {
  int32x4_t total[R][4];
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int v = 0; v < 4; ++v) total[r][v] = vld1q_s32(start + 4 * v);
  }
#define STEP(lane)                                                                               \
  {                                                                                              \
    int8x16_t columns[4];                                                                        \
    UNROLL                                                                                       \
    for (int v = 0; v < 4; ++v) columns[v] = vld1q_s8(weights + 64 * lane + 16 * v);             \
    UNROLL                                                                                       \
    for (int r = 0; r < R; ++r) {                                                                \
      UNROLL                                                                                     \
      for (int v = 0; v < 4; ++v) total[r][v] = vdotq_laneq_s32(total[r][v], columns[v], inputs[r], lane); \
    }                                                                                            \
  }
  for (int i = 0; i < in; i += 4 * GROUP, weights += 256) {
    int8x16_t inputs[R];
    UNROLL
    for (int r = 0; r < R; ++r) inputs[r] = vld1q_s8(rows + size_t(r) * in + i);
    STEP(0) STEP(1) STEP(2) STEP(3)
  }
#undef STEP
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int v = 0; v < 4; ++v) vst1q_s32(sums + BLOCK * r + 4 * v, total[r][v]);
  }
}

const DotKernel DOT[MAX_ROWS + 1] = {nullptr, dot<1>, dot<2>, dot<3>, dot<4>};

struct Products {
  static constexpr int columns = BLOCK, most = MAX_ROWS;
  int in;

  Products(const Linear& map, int) : in(map.in) {}
  INLINE const int32_t* sums(const uint8_t* rows, int n, const int8_t* weights, int, const int32_t* start, size_t,
                             int32_t* buffer) const {
    DOT[n](reinterpret_cast<const int8_t*>(rows), weights, in, start, buffer);
    return buffer;
  }
};

}  // namespace
}  // namespace recoversat

#include "layers.h"

namespace recoversat {
DEFINE_KIT(KIT_NEON_DOT, "neon");
}
