// What the kernels on AMX tiles share.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
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

TACHY_TARGET_AMX inline void configure_tiles() {
  static const TileConfig config;
  // Compilers of 2022 think that the instruction reads 8 bytes; the barrier keeps the other 56.
  asm volatile("" : : "m"(config) : "memory");
  _tile_loadconfig(&config);
}

}  // namespace tachy::cpu
#endif
