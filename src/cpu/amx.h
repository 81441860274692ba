// What the kernels on AMX tiles share.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TACHY_TARGET_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq")))

namespace tachy::cpu {

// All eight tiles are 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  TileConfig() {
    for (int i = 0; i < 8; ++i) row_bytes[i] = 64, rows[i] = 16;
  }
};

// Which registers the system saves (XCR0); only to be asked where CPUID has OSXSAVE.
inline uint64_t enabled_state() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Linux hands out the 8 KiB of the tiles' state only when asked.
inline bool tiles_allowed() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

TACHY_TARGET_AMX inline void configure_tiles() {
  static const TileConfig config;
  // Compilers of 2022 think that the instruction reads 8 bytes; the barrier keeps the other 56.
  asm volatile("" : : "m"(config) : "memory");
  _tile_loadconfig(&config);
}

}  // namespace tachy::cpu
#endif
