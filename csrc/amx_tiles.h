// Tile registers of AMX, or an emulation of them that behaves alike (EMULATE_AMX).
#pragma once

#include "vector.h"

namespace recoversat {
namespace {

// What ldtilecfg reads: palette 1, rows and bytes a row of each of the 8 tile registers.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void shape(int tile, int n, int bytes) { rows[tile] = uint8_t(n), row_bytes[tile] = uint16_t(bytes); }
};

#ifdef EMULATE_AMX

struct Tile {
  uint8_t bytes[16][64];
};

thread_local TileConfig config_now;
thread_local Tile tiles[8];

inline void load_config(const TileConfig& config) {
  config_now = config;
  std::memset(tiles, 0, sizeof tiles);
}

inline void release_tiles() { config_now.palette = 0; }
inline void flush_tiles() {}

// Loading and storing tiles without a configuration is a fault, as it is in hardware.
inline void check_config() {
  if (config_now.palette != 1) __builtin_trap();
}

template <int T>
void load_tile(const void* from, size_t stride) {
  check_config();
  for (int row = 0; row < config_now.rows[T]; ++row)
    std::memcpy(tiles[T].bytes[row], static_cast<const uint8_t*>(from) + row * stride, config_now.row_bytes[T]);
}

template <int T>
void store_tile(void* to, size_t stride) {
  check_config();
  for (int row = 0; row < config_now.rows[T]; ++row)
    std::memcpy(static_cast<uint8_t*>(to) + row * stride, tiles[T].bytes[row], config_now.row_bytes[T]);
}

template <int C, int A, int B>
void multiply_tiles() {
  check_config();
  const int groups = config_now.row_bytes[A] / GROUP;
  if (config_now.rows[C] != config_now.rows[A] || groups != config_now.rows[B]) __builtin_trap();
  for (int row = 0; row < config_now.rows[C]; ++row) {
    __m512i total = _mm512_loadu_si512(tiles[C].bytes[row]);
    for (int group = 0; group < groups; ++group) {
      int32_t four;
      std::memcpy(&four, tiles[A].bytes[row] + GROUP * group, sizeof four);
      total = _mm512_dpbusd_epi32(total, _mm512_set1_epi32(four), _mm512_loadu_si512(tiles[B].bytes[group]));
    }
    _mm512_storeu_si512(tiles[C].bytes[row], total);
  }
}

#else

// The compiler does not know what these instructions read and write, so memory is declared changed by them.
inline void load_config(const TileConfig& config) { __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory"); }
inline void release_tiles() { __asm__ volatile("tilerelease" ::: "memory"); }
INLINE void flush_tiles() { __asm__ volatile("" ::: "memory"); }

template <int T>
INLINE void load_tile(const void* from, size_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
}

template <int T>
INLINE void store_tile(void* to, size_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
}

template <int C, int A, int B>
INLINE void multiply_tiles() {
  __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}

#endif

}  // namespace
}  // namespace recoversat
