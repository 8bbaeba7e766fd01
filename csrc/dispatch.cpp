// Which kits this processor runs.
#include <cmath>
#include <cstdint>

#include "kit.h"

#if defined(__x86_64__)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace recoversat {

extern const Kit KIT_PLAIN_CPP, KIT_AVX2_FMA, KIT_AVX_VNNI, KIT_AVX512_VNNI, KIT_AMX, KIT_AMX_EMULATED, KIT_NEON_DOT;

namespace {

#if defined(__x86_64__)

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

bool cpuid_bit(unsigned leaf, unsigned subleaf, bool in_edx, int bit) {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d)) return false;
  return (in_edx ? d : a) >> bit & 1;
}

bool has_avx_vnni() { return has_avx2() && cpuid_bit(7, 1, false, 4); }

// Ask Linux for the tile registers, which it gives a process only on request.
bool has_amx() {
#ifdef __linux__
  constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
  const bool tile = cpuid_bit(7, 0, true, 24), int8 = cpuid_bit(7, 0, true, 25);
  return has_avx512() && tile && int8 && !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
#else
  return false;
#endif
}

#elif defined(__aarch64__)

bool has_dot_products() {
#ifdef __linux__
  return getauxval(AT_HWCAP) >> 20 & 1;
#else
  return true;  // every Mac with an ARM processor
#endif
}

#endif

struct Usable {
  const Kit* kits[8] = {};

  Usable() {
    int n = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (has_amx()) kits[n++] = &KIT_AMX;
    if (has_avx512()) kits[n++] = &KIT_AVX512_VNNI;
    if (has_avx_vnni()) kits[n++] = &KIT_AVX_VNNI;
    if (has_avx2()) kits[n++] = &KIT_AVX2_FMA;
#elif defined(__aarch64__)
    if (has_dot_products()) kits[n++] = &KIT_NEON_DOT;
#endif
    kits[n++] = &KIT_PLAIN_CPP;
#ifdef EMULATE_AMX
    if (has_avx512()) kits[n++] = &KIT_AMX_EMULATED;
#endif
  }
};

}  // namespace

const Kit* const* usable_kits() {
  static const Usable usable;
  return usable.kits;
}

float log_sum(const Best& best) {
  float sums[LANES];
  for (int i = 0; i < LANES; ++i) sums[i] = best.sum[i];
  for (int half = LANES / 2; half; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return std::log(sums[0]);
}

}  // namespace recoversat
