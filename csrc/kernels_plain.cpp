// Plain C++ for every processor; the inputs of a product are 16 bits wide.
#include "vector.h"

namespace recoversat {
namespace {

constexpr int MAX_ROWS = 4, BLOCK = LANES;

struct Products {
  static constexpr int columns = BLOCK, most = MAX_ROWS;
  int in;

  Products(const Linear& map, int) : in(map.in) {}
  const int32_t* sums(const uint8_t* rows, int n, const int8_t* weights, int, const int32_t* start, size_t,
                      int32_t* buffer) const {
    for (int r = 0; r < n; ++r, rows += 2 * size_t(in)) {
      int32_t total[LANES];
      std::memcpy(total, start, sizeof total);
      for (int i = 0; i < in; i += GROUP) {
        int16_t inputs[GROUP];
        std::memcpy(inputs, rows + 2 * size_t(i), sizeof inputs);
        const int8_t* group = weights + size_t(i) * LANES;
        for (int column = 0; column < LANES; ++column)
          for (int j = 0; j < GROUP; ++j) total[column] += inputs[j] * group[GROUP * column + j];
      }
      std::memcpy(buffer + r * BLOCK, total, sizeof total);
    }
    return buffer;
  }
};

}  // namespace
}  // namespace recoversat

#include "layers.h"

namespace recoversat {
DEFINE_KIT(KIT_PLAIN_CPP, "plain");
}
