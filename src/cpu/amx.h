// AMX's tiles, eight registers of 16 rows of 64 bytes, and all of their instructions that this project uses.
// A kernel on tiles is a template over the kind of tiles:
//
//   HardwareTiles  the CPU's own instructions, written in assembly, so that a kernel needs no target of its own
//   PlainTiles     the same arithmetic in memory, on any CPU (amx_plain.cpp): TACHY_BF16=amx-emulated
//
// Both give the same bits (amx_test.cpp compares them if the CPU has AMX), so that whatever is
// chosen, divided and added up on a machine with AMX can be tested on one without. A kernel makes
// one object for all its work.
#pragma once

#include <cstdint>
#include <cstring>

namespace tachy::cpu {

bool tiles_emulated();  // TACHY_BF16=amx-emulated: PlainTiles replace the CPU's own

inline constexpr int kAmxRows = 16, kAmxRowBytes = 64;

// The effect of TDPBF16PS and TDPBUSD, for PlainTiles: sums [16][16] += left [16][64 bytes] · right, whose
// rows hold the pairs of bf16, or the groups of four bytes, of 16 columns.
//
// TDPBF16PS adds up the products at even places in one float32 chain of fused multiply-adds, starting from
// zero, and those at odd places in another. Then it adds both together, and their sum to the result.
// Subnormal operands count as zero, and subnormal results become zero. A CPU without fused multiply-adds
// rounds products below 2^-126 first.
void plain_multiply_bf16(float* sums, const uint16_t* left, const uint16_t* right);
void plain_multiply_bytes(int32_t* sums, const uint8_t* left, const int8_t* right);

class PlainTiles {
 public:
  template <int kTile>
  void zero() {
    std::memset(tile_[kTile], 0, sizeof tile_[kTile]);
  }
  template <int kTile>
  void load(const void* from, int64_t stride_bytes) {
    for (int row = 0; row < kAmxRows; ++row)
      std::memcpy(tile_[kTile][row], static_cast<const char*>(from) + row * stride_bytes, kAmxRowBytes);
  }
  template <int kTile>
  void store(void* to, int64_t stride_bytes) {
    for (int row = 0; row < kAmxRows; ++row)
      std::memcpy(static_cast<char*>(to) + row * stride_bytes, tile_[kTile][row], kAmxRowBytes);
  }
  // Multiplies pairs of bf16 into float32, and bytes (unsigned on the left, signed on the right) into int32.
  template <int kSum, int kLeft, int kRight>
  void multiply_bf16() {
    plain_multiply_bf16(as<float>(kSum), as<uint16_t>(kLeft), as<uint16_t>(kRight));
  }
  template <int kSum, int kLeft, int kRight>
  void multiply_bytes() {
    plain_multiply_bytes(as<int32_t>(kSum), as<uint8_t>(kLeft), as<int8_t>(kRight));
  }

 private:
  template <class T>
  T* as(int tile) {
    return reinterpret_cast<T*>(tile_[tile]);
  }

  alignas(64) unsigned char tile_[8][kAmxRows][kAmxRowBytes];
};

#if defined(__x86_64__)

// Whether this CPU has the tiles and their products of bf16, or of bytes, and the system saves their state;
// Linux provides the 8 KiB for it only on request. TACHY_ISA's limit is not considered.
bool has_tiles_of_bf16();
bool has_tiles_of_bytes();

// Which registers the system saves (XCR0); may only be called if CPUID has OSXSAVE.
inline uint64_t enabled_state() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

class HardwareTiles {
 public:
  HardwareTiles() {
    static const Config config;
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~HardwareTiles() { asm volatile("tilerelease"); }
  HardwareTiles(const HardwareTiles&) = delete;
  HardwareTiles& operator=(const HardwareTiles&) = delete;

  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  void load(const void* from, int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride_bytes), "i"(kTile) : "memory");
  }
  template <int kTile>
  void store(void* to, int64_t stride_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride_bytes), "i"(kTile) : "memory");
  }
  template <int kSum, int kLeft, int kRight>
  void multiply_bf16() {
    asm volatile("tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2" : : "i"(kRight), "i"(kLeft), "i"(kSum));
  }
  template <int kSum, int kLeft, int kRight>
  void multiply_bytes() {
    asm volatile("tdpbusd %%tmm%c0, %%tmm%c1, %%tmm%c2" : : "i"(kRight), "i"(kLeft), "i"(kSum));
  }

 private:
  struct alignas(64) Config {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
    Config() {
      for (int i = 0; i < 8; ++i) row_bytes[i] = kAmxRowBytes, rows[i] = kAmxRows;
    }
  };
};

#endif

}  // namespace tachy::cpu
