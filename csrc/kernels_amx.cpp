// AMX: tiles of up to 16 rows of 64 inputs times tiles of 16 columns; all else as the AVX-512 kit does it.
// With EMULATE_AMX the tiles are emulated, to test this file on processors without them.
#include "vector.h"

namespace recoversat {
namespace {
constexpr int MAX_ROWS = 16, BLOCK = 64;
}
}  // namespace recoversat

#include "amx_tiles.h"
#include "dot_avx512.h"

namespace recoversat {
namespace {

constexpr int TILE_INPUTS = 64;
constexpr int AMX_ROWS = 2;  // with fewer rows vpdpbusd reads the weights as fast

// Tile registers: 0 to 3 sums, 4 rows, 5 weights; 6 and 7 rows and weights of the inputs that do not fill a tile.
struct Products {
  const int in, most;
  const int columns;
  int tile_rows;

  Products(const Linear& map, int n)
      : in(map.in), most(n < AMX_ROWS ? VNNI_ROWS : MAX_ROWS), columns(n < AMX_ROWS ? VNNI_COLUMNS : BLOCK) {
    if (n < AMX_ROWS) return;
    const int parts = (n + MAX_ROWS - 1) / MAX_ROWS, tail = in % TILE_INPUTS;
    tile_rows = (n + parts - 1) / parts;
    TileConfig config;
    for (int tile = 0; tile < 4; ++tile) config.shape(tile, tile_rows, 64);
    config.shape(4, tile_rows, TILE_INPUTS), config.shape(5, TILE_INPUTS / GROUP, 64);
    if (tail) config.shape(6, tile_rows, tail), config.shape(7, tail / GROUP, 64);
    load_config(config);
  }
  ~Products() {
    if (columns == BLOCK) release_tiles();
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  INLINE const int32_t* sums(const uint8_t* rows, int n, const int8_t* weights, int n_columns, const int32_t* start,
                             size_t next, int32_t* buffer) const {
    if (columns != BLOCK) {
      DOT_AVX512[n](rows, weights, in, start, next, buffer);
      return buffer;
    }
    const int again = tile_rows - n;  // all parts have the same shape: a shorter one repeats rows of the part before it
    rows -= size_t(again) * in;
    if (n_columns == BLOCK) tile_sums<4>(rows, weights, start, buffer);
    else tile_sums<2>(rows, weights, start, buffer);
    return buffer + again * BLOCK;
  }

  // Multiply with C tiles of weights.
  template <int C>
  void tile_sums(const uint8_t* rows, const int8_t* weights, const int32_t* start, int32_t* buffer) const {
    const size_t apart = size_t(in) * LANES;
    load_tile<0>(start, 0), load_tile<1>(start + LANES, 0);  // every row begins with the same sums
    if (C > 2) load_tile<2>(start + 2 * LANES, 0), load_tile<3>(start + 3 * LANES, 0);
    int i = 0;
    for (; i + TILE_INPUTS <= in; i += TILE_INPUTS, weights += TILE_INPUTS * LANES) {
      load_tile<4>(rows + i, in);
      load_tile<5>(weights, 64), multiply_tiles<0, 4, 5>();
      load_tile<5>(weights + apart, 64), multiply_tiles<1, 4, 5>();
      if (C == 2) continue;
      load_tile<5>(weights + 2 * apart, 64), multiply_tiles<2, 4, 5>();
      load_tile<5>(weights + 3 * apart, 64), multiply_tiles<3, 4, 5>();
    }
    if (i < in) {
      load_tile<6>(rows + i, in);
      load_tile<7>(weights, 64), multiply_tiles<0, 6, 7>();
      load_tile<7>(weights + apart, 64), multiply_tiles<1, 6, 7>();
      if (C > 2) {
        load_tile<7>(weights + 2 * apart, 64), multiply_tiles<2, 6, 7>();
        load_tile<7>(weights + 3 * apart, 64), multiply_tiles<3, 6, 7>();
      }
    }
    store_tile<0>(buffer, BLOCK * 4), store_tile<1>(buffer + LANES, BLOCK * 4);
    if (C > 2) store_tile<2>(buffer + 2 * LANES, BLOCK * 4), store_tile<3>(buffer + 3 * LANES, BLOCK * 4);
    flush_tiles();
  }
};

}  // namespace
}  // namespace recoversat

#include "layers.h"

namespace recoversat {
#ifdef EMULATE_AMX
DEFINE_KIT(KIT_AMX_EMULATED, "amx-emulated");
#else
DEFINE_KIT(KIT_AMX, "amx");
#endif
}  // namespace recoversat
