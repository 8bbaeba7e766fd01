// AVX-512 with VNNI.
#include "vector.h"

namespace recoversat {
namespace {
constexpr int MAX_ROWS = 10, BLOCK = 32;
}
}  // namespace recoversat

#include "dot_avx512.h"

namespace recoversat {
namespace {

struct Products {
  static constexpr int columns = BLOCK, most = MAX_ROWS;
  int in;

  Products(const Linear& map, int) : in(map.in) {}
  INLINE const int32_t* sums(const uint8_t* rows, int n, const int8_t* weights, int, const int32_t* start, size_t next,
                             int32_t* buffer) const {
    DOT_AVX512[n](rows, weights, in, start, next, buffer);
    return buffer;
  }
};

}  // namespace
}  // namespace recoversat

#include "layers.h"

namespace recoversat {
DEFINE_KIT(KIT_AVX512_VNNI, "avx512-vnni");
}
