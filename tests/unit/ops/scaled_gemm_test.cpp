// Sums of int8 products are exact: on every instruction set they equal the sums in 64-bit integers, at the
// ends of the codes' range and over long rows, packed or not. All implementations give y the same bits.
#include "ops/scaled_gemm/scaled_gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ops/scaled_gemm/scaled_gemm_impl.h"
#include "stand_in_gpu.h"

namespace tachy::ops {
namespace {

enum class Values { random, lowest, mixed_ends };

struct Problem {
  int64_t m, n, k;
  std::vector<int8_t> x, weight;
  std::vector<float> x_scale, weight_scale, bias, addend;

  Problem(int64_t m, int64_t n, int64_t k, Values values) : m(m), n(n), k(k) {
    std::mt19937 engine(5);
    const auto codes = [&](int64_t count) {
      std::vector<int8_t> out;
      for (int64_t i = 0; i < count; ++i) {
        const auto random = static_cast<int>(engine() % 256) - 128;
        out.push_back(static_cast<int8_t>(values == Values::random   ? random
                                          : values == Values::lowest ? -128
                                          : random < 0               ? -128
                                                                     : 127));
      }
      return out;
    };
    const auto floats = [&](int64_t count) {
      std::vector<float> out;
      for (int64_t i = 0; i < count; ++i) out.push_back(0.01f + static_cast<float>(engine() % 1000) * 1e-3f);
      return out;
    };
    x = codes(m * k), weight = codes(n * k);
    x_scale = floats(m), weight_scale = floats(n), bias = floats(n), addend = floats(m * n);
  }

  // Computes y by one implementation. With `plain`, scales are 1 and nothing is added, so that y is the sums.
  std::vector<float> run(const char* impl, bool plain, bool packed) {
    std::vector<float> y(static_cast<size_t>(m * n), NAN), ones(static_cast<size_t>(std::max(m, n)), 1.0f);
    ThreadPool pool(2);
    Arena measure, arena(32 << 20);
    Stream stream{.arena = &arena, .pool = &pool};
    const auto view = [](auto& v, DType dtype, std::initializer_list<int64_t> dims) {
      return Tensor(v.data(), dtype, dims);
    };
    ScaledGemmArgs args{.x = view(x, DType::i8, {m, k}),
                        .x_scale = view(plain ? ones : x_scale, DType::f32, {m}),
                        .weight = view(weight, DType::i8, {n, k}),
                        .weight_scale = view(plain ? ones : weight_scale, DType::f32, {n}),
                        .y = view(y, DType::f32, {m, n})};
    if (!plain) args.bias = view(bias, DType::f32, {n}), args.addend = view(addend, DType::f32, {m, n});
    const Buffer buffer(static_cast<size_t>(packed_scaled_gemm_bytes(n, k)));
    if (packed) {
      args.packed = buffer.tensor(DType::u8, {static_cast<int64_t>(buffer.size())});
      pack_scaled_gemm_weight(args.weight, args.packed, stream);
      args.weight.data = nullptr;
    }
    for (const auto& entry : scaled_gemm_table()) {
      if (std::string_view(entry.name) != impl) continue;
      if (why_not(entry, args, stream)) return {};
      entry.run(args, stream);
      return y;
    }
    ADD_FAILURE() << "no implementation " << impl;
    return {};
  }
};

TEST(ScaledGemm, SumsAreExactOnEveryInstructionSet) {
  int compared = 0;
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{1, 1, 1}, {9, 50, 70}, {33, 100, 5001}, {3, 17, 131071}})
    for (const Values values : {Values::random, Values::lowest, Values::mixed_ends}) {
      Problem problem(m, n, k, values);
      std::vector<float> want;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          int64_t sum = 0;
          for (int64_t q = 0; q < k; ++q)
            sum += problem.x[static_cast<size_t>(i * k + q)] * problem.weight[static_cast<size_t>(j * k + q)];
          want.push_back(static_cast<float>(sum));
        }
      std::vector<float> finished;
      const auto check = [&](const char* impl, const std::string& what) {
        for (const bool packed : {false, true}) {
          const auto sums = problem.run(impl, true, packed);
          if (sums.empty()) continue;  // this CPU does not have the implementation
          EXPECT_EQ(sums, want) << what << " " << m << "x" << n << "x" << k;
          const auto y = problem.run(impl, false, packed);
          if (finished.empty()) finished = y;
          EXPECT_EQ(y, finished) << what << ": other bits than simd's";
          ++compared;
        }
      };
      for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        check("simd", hwy::TargetName(target));
      }
      hwy::SetSupportedTargetsForTest(0);
      check("vnni", "vnni");
      check("amx", "amx");
    }
  EXPECT_GE(compared, 4 * 3 * 2);
}

TEST(ScaledGemm, RowsThatMightOverflowGoToTheDefinition) {
  ThreadPool pool(1);
  Arena arena;
  Stream stream{.arena = &arena, .pool = &pool};
  ScaledGemmArgs args{.x = Tensor(nullptr, DType::i8, {2, 131072}),
                      .weight = Tensor(nullptr, DType::i8, {3, 131072})};
  for (const auto& entry : scaled_gemm_table())
    if (entry.device == DeviceType::cpu && std::string_view(entry.name) != "ref") {
      EXPECT_TRUE(why_not(entry, args, stream)) << entry.name;
    }
}

// A bias of another width would be read as twice or half as many values.
TEST(ScaledGemm, TheBiasHasTheOutputsDType) {
  ThreadPool pool(1);
  Arena arena(1 << 16);
  Stream stream{.arena = &arena, .pool = &pool};
  ScaledGemmArgs args{.x = arena.tensor(DType::f8_e4m3, {2, 16}),
                      .x_scale = arena.f32({2}),
                      .weight = arena.tensor(DType::f8_e4m3, {3, 16}),
                      .weight_scale = arena.f32({3}),
                      .bias = arena.tensor(DType::bf16, {3}),
                      .y = arena.f32({2, 3})};
  try {
    scaled_gemm(args, stream);
    FAIL() << "a bias in bf16 was taken for float32";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.message(), testing::HasSubstr("bias"));
  }
}

struct Hopper final : test::StandInGpu {
  Hopper() { info_.major = 9, info_.multiprocessors = 132, info_.shared_bytes = 227 << 10; }
};

// cuBLASLt multiplies e4m3 in only one layout, with rows that are multiples of 16, and into 16 bits.
// Everything else goes to our own kernel, and the report names that choice: nothing is silently padded or
// converted.
TEST(ScaledGemm, WhatCublasLtCannotTakeGoesToOurKernelOnHopper) {
  if (!cuda::kBuilt) GTEST_SKIP() << "this build has no code for GPUs";
  Hopper gpu;
  ThreadPool pool(1);
  Arena measure;
  Stream stream{.arena = &measure, .pool = &pool, .gpu = &gpu, .memory = &gpu};
  const auto refusal = [&](int64_t k, DType y, int64_t x_row, const char* taken) {
    ScaledGemmArgs args{
        .x = Tensor(planned_address(0), DType::f8_e4m3, {64, x_row}, gpu.device()).slice(1, 0, k),
        .x_scale = Tensor(planned_address(0), DType::f32, {64}, gpu.device()),
        .weight = Tensor(planned_address(0), DType::f8_e4m3, {32, k}, gpu.device()),
        .weight_scale = Tensor(planned_address(0), DType::f32, {32}, gpu.device()),
        .y = Tensor(planned_address(0), y, {64, 32}, gpu.device())};
    std::vector<PassedOver> passed;
    const auto* impl = choose<ScaledGemmArgs>("scaled_gemm", scaled_gemm_table(), args, stream, &passed);
    EXPECT_STREQ(impl ? impl->name : "none", taken) << k;
    return describe(passed);
  };
  EXPECT_THAT(refusal(72, DType::bf16, 72, "plain_sm80"), testing::HasSubstr("16 bytes"));
  EXPECT_THAT(refusal(64, DType::bf16, 72, "plain_sm80"), testing::HasSubstr("16 bytes"));
  EXPECT_THAT(refusal(64, DType::f32, 64, "sm80"), testing::HasSubstr("float32"));
}

}  // namespace
}  // namespace tachy::ops
