// A thread makes eight neighbouring values, which share their scales: it reads 4 to 12 bytes and writes 16
// (16-bit y). Blocks of 18, 34 or 210 bytes lie at any even address, so words are read as halves; data that
// neighbours share comes from the first-level cache. Each product and each sum is rounded separately, as in
// the definition.
//
// The lower bound is the bytes of blocks and y divided by the memory's rate: for 5120 x 5120 of q4_k they are
// 14.7 + 52.4 MB, which take 16 µs on an H200.
#include "cuda/dispatch.h"
#include "cuda/overlap.h"
#include "device/overlap.cuh"
#include "device/vec.cuh"
#include "ops/decode_blocks/decode_blocks_impl.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kEach = 8;

__device__ __forceinline__ uint32_t half_word(const uint8_t* p) {
  return __ldg(reinterpret_cast<const uint16_t*>(p));
}
__device__ __forceinline__ uint32_t word(const uint8_t* p) { return half_word(p) | half_word(p + 2) << 16; }
__device__ __forceinline__ float half_at(const uint8_t* p) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(half_word(p))));
}
__device__ __forceinline__ uint32_t byte(const uint32_t (&words)[2], int i) {
  return words[i / 4] >> i % 4 * 8 & 255u;
}
__device__ __forceinline__ float wide(int value) { return static_cast<float>(value); }

struct Bytes8 {
  uint32_t words[2];
  __device__ __forceinline__ explicit Bytes8(const uint8_t* p) : words{word(p), word(p + 4)} {}
  __device__ __forceinline__ int operator[](int i) const { return static_cast<int>(byte(words, i)); }
};

// v[i] = scale · q(i), minus or plus an offset; q is called with a constant i once the loop is unrolled.
template <class Q>
__device__ __forceinline__ void scaled(float (&v)[kEach], float scale, Q&& q) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) v[i] = __fmul_rn(scale, wide(q(i)));
}
template <class Q>
__device__ __forceinline__ void scaled_plus(float (&v)[kEach], float scale, float offset, Q&& q) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) v[i] = __fadd_rn(__fmul_rn(scale, wide(q(i))), offset);
}

// For blocks of 32: values [first, first + 8) are in the low or the high halves of the bytes at first % 16.
template <int Header>
struct Nibbles {
  Bytes8 bytes;
  int shift;
  __device__ __forceinline__ Nibbles(const uint8_t* block, int first)
      : bytes(block + Header + first % 16), shift(first / 16 * 4) {}
  __device__ __forceinline__ int operator[](int i) const { return bytes[i] >> shift & 15; }
};

struct Q40 {
  static constexpr int kId = 2, kValues = 32, kBytes = 18;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const Nibbles<2> q(block, first);
    scaled(v, half_at(block), [&](int i) { return q[i] - 8; });
  }
};

struct Q41 {
  static constexpr int kId = 3, kValues = 32, kBytes = 20;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const Nibbles<4> q(block, first);
    scaled_plus(v, half_at(block), half_at(block + 2), [&](int i) { return q[i]; });
  }
};

// The fifth bits of eight values.
__device__ __forceinline__ int fifth(uint32_t bits, int i) { return static_cast<int>(bits >> i & 1u) << 4; }

struct Q50 {
  static constexpr int kId = 6, kValues = 32, kBytes = 22;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const Nibbles<6> q(block, first);
    const uint32_t high = word(block + 2) >> first;
    scaled(v, half_at(block), [&](int i) { return (q[i] | fifth(high, i)) - 16; });
  }
};

struct Q51 {
  static constexpr int kId = 7, kValues = 32, kBytes = 24;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const Nibbles<8> q(block, first);
    const uint32_t high = word(block + 4) >> first;
    scaled_plus(v, half_at(block), half_at(block + 2), [&](int i) { return q[i] | fifth(high, i); });
  }
};

struct Q80 {
  static constexpr int kId = 8, kValues = 32, kBytes = 34;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const Bytes8 q(block + 2 + first);
    scaled(v, half_at(block), [&](int i) { return static_cast<int>(static_cast<int8_t>(q[i])); });
  }
};

// For blocks of 256: `lane` chooses 32 of the values, and `in` is a place among these.
struct Q2K {
  static constexpr int kId = 10, kValues = 256, kBytes = 84;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const int lane = first / 32, in = first % 32, shift = lane % 4 * 2;
    const Bytes8 q(block + 16 + lane / 4 * 32 + in);
    const int packed = __ldg(block + 2 * lane + in / 16);
    const float scale = __fmul_rn(half_at(block + 80), wide(packed & 15)),
                least = __fmul_rn(half_at(block + 82), wide(packed >> 4));
    scaled_plus(v, scale, -least, [&](int i) { return q[i] >> shift & 3; });
  }
};

struct Q3K {
  static constexpr int kId = 11, kValues = 256, kBytes = 110;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const int lane = first / 32, in = first % 32, shift = lane % 4 * 2, group = 2 * lane + in / 16;
    const Bytes8 mask(block + in), q(block + 32 + lane / 4 * 32 + in);
    const uint8_t* scales = block + 96;
    const int low = __ldg(scales + group % 8) >> group / 8 * 4 & 15;
    const int high = __ldg(scales + 8 + group % 4) >> group / 4 * 2 & 3;
    scaled(v, __fmul_rn(half_at(block + 108), wide((low | high << 4) - 32)),
           [&](int i) { return (q[i] >> shift & 3) + (mask[i] >> lane & 1) * 4 - 4; });
  }
};

// The scale and the least value of 32 values in q4_k and q5_k, 6 bits each.
__device__ __forceinline__ void six_bits(const uint8_t* packed, int lane, int& scale, int& least) {
  const int low = __ldg(packed + lane % 4), middle = __ldg(packed + 4 + lane % 4);
  if (lane < 4) {
    scale = low & 63, least = middle & 63;
  } else {
    const int rest = __ldg(packed + 4 + lane);
    scale = (rest & 15) | (low >> 2 & 48), least = rest >> 4 | (middle >> 2 & 48);
  }
}

struct Q4K {
  static constexpr int kId = 12, kValues = 256, kBytes = 144;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const int lane = first / 32, in = first % 32, shift = lane % 2 * 4;
    int scale, least;
    six_bits(block + 4, lane, scale, least);
    const Bytes8 q(block + 16 + lane / 2 * 32 + in);
    scaled_plus(v, __fmul_rn(half_at(block), wide(scale)), -__fmul_rn(half_at(block + 2), wide(least)),
                [&](int i) { return q[i] >> shift & 15; });
  }
};

struct Q5K {
  static constexpr int kId = 13, kValues = 256, kBytes = 176;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const int lane = first / 32, in = first % 32, shift = lane % 2 * 4;
    int scale, least;
    six_bits(block + 4, lane, scale, least);
    const Bytes8 mask(block + 16 + in), q(block + 48 + lane / 2 * 32 + in);
    scaled_plus(v, __fmul_rn(half_at(block), wide(scale)), -__fmul_rn(half_at(block + 2), wide(least)),
                [&](int i) { return (q[i] >> shift & 15) | (mask[i] >> lane & 1) << 4; });
  }
};

struct Q6K {
  static constexpr int kId = 14, kValues = 256, kBytes = 210;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const int lane = first / 32, in = first % 32, low_shift = lane % 4 / 2 * 4, high_shift = lane % 4 * 2;
    const Bytes8 low(block + lane / 4 * 64 + lane % 2 * 32 + in), high(block + 128 + lane / 4 * 32 + in);
    const auto scale = static_cast<int8_t>(__ldg(block + 192 + 2 * lane + in / 16));
    scaled(v, __fmul_rn(half_at(block + 208), wide(scale)),
           [&](int i) { return ((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32; });
  }
};

// Looks up indices in a table of bytes, which two or four words hold: the permute instruction picks a byte.
__device__ __forceinline__ int from_table(uint4 table, int index) {
  const uint32_t low = index & 4 ? table.y : table.x, high = index & 4 ? table.w : table.z;
  const uint32_t four = index & 8 ? high : low;
  return static_cast<int8_t>(four >> (index & 3) * 8 & 255u);
}
// The bytes are -127 -104 -83 -65 | -49 -35 -22 -10 | 1 13 25 38 | 53 69 89 113.
__device__ __forceinline__ uint4 uneven() {
  return make_uint4(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
}
// The bytes are twice the values of e2m1: 0 1 2 3 | 4 6 8 12 | and their negatives (of which 0 stays 0).
__device__ __forceinline__ uint4 doubled() {
  return make_uint4(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
}

struct Iq4Nl {
  static constexpr int kId = 20, kValues = 32, kBytes = 18;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const Nibbles<2> q(block, first);
    scaled(v, half_at(block), [&](int i) { return from_table(uneven(), q[i]); });
  }
};

struct Iq4Xs {
  static constexpr int kId = 23, kValues = 256, kBytes = 136;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const int group = first / 32, high = static_cast<int>(half_word(block + 2));
    const int low = __ldg(block + 4 + group / 2) >> 4 * (group % 2) & 15;
    const int scale = (low | (high >> 2 * group & 3) << 4) - 32;
    const Nibbles<0> q(block + 8 + 16 * group, first % 32);
    scaled(v, __fmul_rn(half_at(block), wide(scale)), [&](int i) { return from_table(uneven(), q[i]); });
  }
};

// This block has 17 bytes; it is the one type that may lie at an odd address.
struct Mxfp4 {
  static constexpr int kId = 39, kValues = 32, kBytes = 17;
  __device__ static void decode(const uint8_t* block, int first, float (&v)[kEach]) {
    const uint32_t e = __ldg(block);
    const float scale = __uint_as_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    const int shift = first / 16 * 4;
    scaled(v, scale,
           [&](int i) { return from_table(doubled(), __ldg(block + 1 + first % 16 + i) >> shift & 15); });
  }
};

// kStore is the number of values that are stored at once.
template <class Block, class Y, int kStore>
__global__ void __launch_bounds__(256) decode_kernel(const uint8_t* blocks, Y* y, int64_t groups) {
  wait_for_previous_kernel();
  constexpr int kGroups = Block::kValues / kEach;
  const int64_t g = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (g >= groups) return;
  float v[kEach];
  Block::decode(blocks + g / kGroups * Block::kBytes, static_cast<int>(g % kGroups) * kEach, v);
#pragma unroll
  for (int i = 0; i < kEach; i += kStore) {
    float some[kStore];
#pragma unroll
    for (int j = 0; j < kStore; ++j) some[j] = v[i + j];
    store(y + g * kEach + i, some);
  }
}

template <class Block>
void run(const DecodeBlocksArgs& a, Stream& stream) {
  const int64_t groups = a.y.numel() / kEach;
  cuda::dispatch_float("decode_blocks", a.y.dtype, [&]<class Y>() {
    auto* kernel =
        cuda::fits_packs(kPack<Y>, {&a.y}) ? decode_kernel<Block, Y, kPack<Y>> : decode_kernel<Block, Y, 1>;
    cuda::launch_overlapping("decode_blocks", kernel, {cuda::blocks_for(groups, 256), 256}, stream,
                             static_cast<const uint8_t*>(a.blocks.data), static_cast<Y*>(a.y.data), groups);
  });
}

template <class... Blocks>
bool run_one_of(const DecodeBlocksArgs& a, Stream& stream) {
  return ((a.type->id == Blocks::kId ? (run<Blocks>(a, stream), true) : false) || ...);
}

}  // namespace

void decode_blocks_cuda(const DecodeBlocksArgs& a, Stream& stream) {
  if (a.y.numel() == 0) return;
  const bool known =
      run_one_of<Q40, Q41, Q50, Q51, Q80, Q2K, Q3K, Q4K, Q5K, Q6K, Iq4Nl, Iq4Xs, Mxfp4>(a, stream);
  check(known, ErrorCode::internal, "decode_blocks: no kernel for {}", a.type->name);
}

}  // namespace tachy::ops
