// The plain twin of AMX's tiles is compared with the definition of the instructions, on every instruction
// set, and with the instructions themselves if this CPU has them: the bits are the same.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>

#include "cpu/amx.h"
#include "cpu/isa.h"

namespace tachy::cpu {
namespace {

struct alignas(64) Operands {
  std::array<uint16_t, 512> left, right;
  std::array<float, 256> sums;
};

// The range of exponents from which numbers are drawn: usual ones; all of them, with NaN and infinity;
// subnormal ones and their neighbours; ones whose products are subnormal; ones whose products overflow.
enum class Kind { usual, all, subnormal, subnormal_products, overflow };
constexpr Kind kKinds[] = {Kind::usual, Kind::all, Kind::subnormal, Kind::subnormal_products, Kind::overflow};

Operands draw(Kind kind, std::mt19937& random) {
  const auto exponent = [&]() -> uint32_t {
    const auto r = static_cast<uint32_t>(random());
    switch (kind) {
      case Kind::usual:
        return 120 + r % 12;
      case Kind::all:
        return r % 256;
      case Kind::subnormal:
        return r % 4 + (r >> 20 & 1 ? 0 : 60);
      case Kind::subnormal_products:
        return 55 + r % 14;
      case Kind::overflow:
        return 180 + r % 20;
    }
    return 0;
  };
  const auto bf16 = [&] { return static_cast<uint16_t>((random() & 0x807f) | exponent() << 7); };
  Operands o;
  for (auto& v : o.left) v = bf16();
  for (auto& v : o.right) v = bf16();
  for (auto& v : o.sums) {
    const uint32_t subnormal = static_cast<uint32_t>(random()) & 0x8000u, third = random() % 3;
    const uint32_t high = kind == Kind::subnormal_products ? subnormal | third << 7 : bf16();
    v = std::bit_cast<float>(high << 16 | static_cast<uint32_t>(random() & 0xffff));
  }
  return o;
}

float flushed(float v) { return std::abs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }
float widened(uint16_t bits) { return flushed(std::bit_cast<float>(uint32_t{bits} << 16)); }

std::array<float, 256> defined(const Operands& o) {
  std::array<float, 256> sums = o.sums;
  for (size_t row = 0; row < 16; ++row)
    for (size_t column = 0; column < 16; ++column) {
      float chain[2] = {};
      for (size_t k = 0; k < 32; ++k)
        chain[k % 2] = flushed(std::fma(widened(o.left[row * 32 + k]),
                                        widened(o.right[(k / 2 * 16 + column) * 2 + k % 2]), chain[k % 2]));
      float& sum = sums[row * 16 + column];
      sum = flushed(flushed(sum) + flushed(chain[0] + chain[1]));
    }
  return sums;
}

template <class Tiles>
std::array<float, 256> product(const Operands& o) {
  Tiles tiles;
  std::array<float, 256> sums;
  tiles.template load<0>(o.sums.data(), 64);
  tiles.template load<4>(o.left.data(), 64);
  tiles.template load<6>(o.right.data(), 64);
  tiles.template multiply_bf16<0, 4, 6>();
  tiles.template store<0>(sums.data(), 64);
  return sums;
}

// Returns the number of values that differ; different NaN values count as equal.
int differences(const std::array<float, 256>& a, const std::array<float, 256>& b) {
  int count = 0;
  for (size_t i = 0; i < a.size(); ++i)
    count +=
        std::isnan(a[i]) ? !std::isnan(b[i]) : std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
  return count;
}

TEST(Tiles, TheTwinDoesAsTheInstructionIsDefined) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    // Without fused multiply-adds, a product that does not fit float32 exactly is rounded first.
    const bool fused = target < HWY_SSE4;
    std::mt19937 random(7);
    for (const Kind kind : kKinds)
      for (int i = 0; i < 20 && (fused || kind == Kind::usual); ++i) {
        const Operands o = draw(kind, random);
        ASSERT_EQ(differences(product<PlainTiles>(o), defined(o)), 0)
            << hwy::TargetName(target) << ", kind " << static_cast<int>(kind);
      }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Tiles, TheTwinMultipliesBytesExactly) {
  std::mt19937 random(8);
  for (int round = 0; round < 20; ++round) {
    std::array<uint8_t, 1024> left;
    std::array<int8_t, 1024> right;
    std::array<int32_t, 256> sums, want;
    for (auto& v : left) v = static_cast<uint8_t>(round == 0 ? 255 : random());
    for (auto& v : right) v = static_cast<int8_t>(round == 0 ? -128 : random());
    for (auto& v : sums) v = static_cast<int32_t>(random());
    for (size_t i = 0; i < 256; ++i) {
      uint32_t sum = static_cast<uint32_t>(sums[i]);  // wraps around, like the instruction's sums
      for (size_t k = 0; k < 64; ++k)
        sum += static_cast<uint32_t>(left[i / 16 * 64 + k] * right[k / 4 * 64 + i % 16 * 4 + k % 4]);
      want[i] = static_cast<int32_t>(sum);
    }
    plain_multiply_bytes(sums.data(), left.data(), right.data());
    ASSERT_EQ(sums, want);
  }
}

#if defined(__x86_64__)
TEST(Tiles, TheTwinHasTheHardwaresBits) {
  if (!has_tiles_of_bf16()) GTEST_SKIP() << "this CPU has no AMX-BF16";
  if (isa() < Isa::avx2) GTEST_SKIP() << "no fused multiply-adds";
  std::mt19937 random(std::random_device{}());
  const Operands first = draw(Kind::usual, random);
  EXPECT_NE(differences(product<HardwareTiles>(first), first.sums), 0) << "nothing was multiplied";
  for (const Kind kind : kKinds)
    for (int i = 0; i < 500; ++i) {
      const Operands o = draw(kind, random);
      ASSERT_EQ(differences(product<PlainTiles>(o), product<HardwareTiles>(o)), 0) << static_cast<int>(kind);
    }
}

TEST(Tiles, TheTwinHasTheHardwaresBytes) {
  if (!has_tiles_of_bytes()) GTEST_SKIP() << "this CPU has no AMX-INT8";
  std::mt19937 random(std::random_device{}());
  alignas(64) std::array<uint8_t, 1024> left, right;
  alignas(64) std::array<int32_t, 256> sums, plain, hardware;
  for (auto& v : left) v = static_cast<uint8_t>(random());
  for (auto& v : right) v = static_cast<uint8_t>(random());
  for (auto& v : sums) v = static_cast<int32_t>(random());
  const auto run = [&](auto tiles_kind, std::array<int32_t, 256>& to) {
    typename decltype(tiles_kind)::type tiles;
    tiles.template load<0>(sums.data(), 64);
    tiles.template load<4>(left.data(), 64);
    tiles.template load<6>(right.data(), 64);
    tiles.template multiply_bytes<0, 4, 6>();
    tiles.template store<0>(to.data(), 64);
  };
  run(std::type_identity<PlainTiles>{}, plain);
  run(std::type_identity<HardwareTiles>{}, hardware);
  EXPECT_EQ(plain, hardware);
}
#endif

}  // namespace
}  // namespace tachy::cpu
