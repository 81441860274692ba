// The linear layer is compared with PyTorch. It gives the same bits from packed and mapped weights, keeps its
// contract, and never starts a thread team.
#include "ops/gemm/gemm.h"

#include <gmock/gmock.h>
#include <hwy/targets.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>
#include <thread>

#include "cpu/onednn.h"
#include "cpu/split_tiles.h"
#include "cuda/gpu.h"
#include "gemm_conv_golden.h"
#include "ops/conv3d/conv3d.h"
#include "ops/gemm/gemm_cases.h"
#include "ops/pick_record.h"
#include "tensor/work_tally.h"

namespace tachy {
namespace {

using ops::Activation;
using ops::GemmArgs;

class Gemm : public testing::TestWithParam<const char*> {};

TEST_P(Gemm, AgreesWithTorch) {
  if (GetParam() == std::string_view("split") && !cpu::has_split_tiles())
    GTEST_SKIP() << "no tiles: TACHY_BF16=amx-emulated has them";
  Forced forced("gemm", GetParam());
  GoldenCase golden("linear");
  GemmArgs args{.x = golden.load("x"), .weight = golden.load("weight"), .bias = golden.load("bias")};
  const int64_t n = args.weight.dim(0), k = args.weight.dim(1);
  for (const bool packed : {false, true}) {
    if (packed) {
      args.packed = golden.bytes(ops::packed_gemm_bytes(n, k));
      ops::pack_gemm_weight(args.weight, args.packed, golden.stream());
    }
    const std::pair<Activation, const char*> kinds[] = {{Activation::none, "none"},
                                                        {Activation::silu, "silu"},
                                                        {Activation::gelu_tanh, "gelu_tanh"},
                                                        {Activation::gelu_erf, "gelu_erf"}};
    for (const auto& [act, name] : kinds) {
      const Tensor expected = golden.load(name);
      args.act = act, args.y = golden.empty(expected.shape());
      ops::gemm(args, golden.stream());
      expect_close(args.y, expected, name);
    }
    GemmArgs gated = args;
    gated.act = Activation::gelu_tanh;
    gated.multiply = golden.load("multiply"), gated.residual = golden.load("residual");
    gated.gate = golden.load("gate"), gated.row = golden.load("row");
    gated.y = gated.residual;
    ops::gemm(gated, golden.stream());
    expect_close(gated.y, golden.load("gated"), "gated, in place");
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, Gemm, testing::Values("f32", "split", "ref"),
                         [](const auto& info) { return std::string(info.param); });

// Without Products::tf32, float32 products are IEEE's. TF32 keeps 10 digits of each operand. If both operands
// are cut off rather than rounded, a product loses 7e-4 on average; if they are rounded, it loses 3e-4, and
// this share also remains of a sum of any length.
TEST(GemmOnGpu, RoundsToTf32WhereThatIsAskedFor) {
  if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
  const auto gpu = cuda::open_gpu();
  if (gpu->info().capability() < 80) GTEST_SKIP() << "TF32 needs compute capability 8.0";
  constexpr int64_t m = 300, n = 384, k = 512;
  std::vector<float> x(m * k), w(n * k), got(m * n);
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  for (auto* values : {&x, &w})
    for (float& v : *values) v = normal(random);
  ops::PickRecord picks;
  const auto error = [&](Products products) {
    ThreadPool pool(1);
    Arena arena(size_t{64} << 20, gpu.get());
    Stream stream{.arena = &arena, .pool = &pool, .gpu = gpu.get(), .memory = gpu.get()};
    stream.precision.products = products;
    stream.hooks.picks = &picks;
    const Tensor on_x = arena.f32({m, k}), on_w = arena.f32({n, k}), y = arena.f32({m, n});
    gpu->upload(on_x.data, x.data(), x.size() * sizeof(float));
    gpu->upload(on_w.data, w.data(), w.size() * sizeof(float));
    Arena measure;
    stream.arena = &measure;  // a measure run notes the choice
    ops::gemm({.x = on_x, .weight = on_w, .y = y}, stream);
    stream.arena = &arena;
    ops::gemm({.x = on_x, .weight = on_w, .y = y}, stream);
    gpu->synchronize();
    gpu->download(got.data(), y.data, got.size() * sizeof(float));
    double off = 0, size = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += static_cast<double>(x[static_cast<size_t>(i * k + l)]) * w[static_cast<size_t>(j * k + l)];
        off += std::pow(got[static_cast<size_t>(i * n + j)] - sum, 2), size += sum * sum;
      }
    return std::sqrt(off / size);
  };
  EXPECT_LT(error(Products::as_activations), 2e-6);
  if (picks.picks().at(0).impl != "cublaslt") GTEST_SKIP() << picks.picks()[0].why;
  const double tf32 = error(Products::tf32);
  EXPECT_GT(tf32, 5e-5) << "the operands were not rounded";
  EXPECT_LT(tf32, 1e-3);
  RecordProperty("error", fmt::format("{:.2e}", tf32));
}

TEST(Gemm, NamesWhatIsWrong) {
  GoldenCase golden("linear");
  const Tensor x = golden.load("x"), weight = golden.load("weight");
  const auto message = [&](GemmArgs args) -> std::string {
    try {
      ops::gemm(args, golden.stream());
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  };
  const int64_t wrong[] = {5, 8}, right[] = {5, 7};
  EXPECT_THAT(message({.x = x, .weight = weight, .y = golden.empty(wrong)}), testing::HasSubstr("y"));
  const Tensor y = golden.empty(right);
  EXPECT_THAT(message({.x = x, .weight = weight, .gate = golden.load("gate"), .y = y}),
              testing::HasSubstr("needs a residual"));
  Tensor row = golden.load("row");
  row.as<int32_t>()[3] = 2;
  EXPECT_THAT(
      message({.x = x, .weight = weight, .gate = golden.load("gate"), .row = row, .residual = y, .y = y}),
      testing::HasSubstr("row[3]"));
  EXPECT_THAT(message({.x = x, .weight = weight, .packed = golden.bytes(4), .y = y}),
              testing::HasSubstr("packed"));
  const int64_t none[] = {0, 7};
  EXPECT_EQ(message({.x = x.slice(0, 0, 0), .weight = weight, .y = golden.empty(none)}), "no error");
}

TEST(Gemm, MeasureRunCountsFlopsAndComputesNothing) {
  GoldenCase golden("linear");
  GemmArgs args{.x = golden.load("x"), .weight = golden.load("weight")};
  const int64_t dims[] = {5, 7};
  args.y = golden.empty(dims);
  Arena arena;
  ThreadPool pool(2);
  uint64_t flops = 0;
  Stream stream{.arena = &arena, .pool = &pool, .hooks = {.flops = &flops}};
  WorkTally tally;
  {
    const WorkTally::Counting counting(tally);
    ops::gemm(args, stream);
  }
  EXPECT_EQ(flops, 2u * 5 * 7 * 19);
  ASSERT_EQ(tally.stages().at(0).second.size(), 1u);
  const OpWork work = tally.stages()[0].second[0];
  EXPECT_EQ(work.kind, WorkKind::product);
  EXPECT_EQ(work.flops, 2.0 * 5 * 7 * 19);
  EXPECT_EQ(work.bytes, 4.0 * (5 * 19 + 7 * 19 + 5 * 7));
  EXPECT_TRUE(std::isnan(args.y.as<float>()[0]));
}

// Returns the result of `c` under this instruction set, row by row.
std::string bytes_of(const ops::GemmCase& c) {
  ops::CaseMemory memory(1, c.kind);
  const GemmArgs args = ops::make_gemm_args(memory, c);
  ThreadPool pool(2);
  Arena plan;
  Stream measure{.arena = &plan, .pool = &pool, .precision = {.compute = c.with.compute}};
  ops::gemm(args, measure);
  Arena arena(plan.peak());
  Stream stream{.arena = &arena, .pool = &pool, .precision = {.compute = c.with.compute}};
  ops::gemm(args, stream);
  std::string bytes;
  for (int64_t i = 0; i < c.m; ++i)
    bytes.append(reinterpret_cast<const char*>(args.y.as<float>() + i * args.y.stride(0)),
                 static_cast<size_t>(c.n) * 4);
  return bytes;
}

// Where a weight lies never changes a bit, on any instruction set that the CPU (or TACHY_ISA) allows.
TEST(Gemm, PackedAndMappedWeightsGiveTheSameBits) {
  std::vector<ops::GemmCase> cases = ops::gemm_case_list();
  for (const int64_t rows : {1, 2, 6, 16, 31, 32, 95, 97, 128})  // around the limits between the fast paths
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3})
      cases.push_back({ops::CaseKind::odd, rows, 131, 1037, {.dtype = dtype, .bias = true}});
  int compared = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (ops::GemmCase c : cases) {
      if (c.kind >= ops::CaseKind::real) continue;  // these cases are for timing and GPUs
      c.with.packed = false;
      const std::string mapped = bytes_of(c);
      c.with.packed = true;
      EXPECT_TRUE(mapped == bytes_of(c)) << hwy::TargetName(target) << ": " << c.m << "x" << c.n << "x" << c.k
                                         << " " << dtype_name(c.with.dtype);
      ++compared;
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_GE(compared, 60);
}

int64_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// There are no threads other than the pool's: the vendor library never starts its own team, even when it is
// called from a thread that the pool does not know.
TEST(Gemm, NoThreadTeam) {
  GoldenCase golden("linear");
  const int64_t before = threads_of_process();
  const int64_t x_dims[] = {600, 256}, w_dims[] = {300, 256}, y_dims[] = {600, 300};
  GemmArgs args{.x = golden.empty(x_dims), .weight = golden.empty(w_dims), .y = golden.empty(y_dims)};
  std::memset(args.x.data, 0, static_cast<size_t>(args.x.bytes()));
  std::memset(args.weight.data, 0, static_cast<size_t>(args.weight.bytes()));
  args.packed = golden.bytes(ops::packed_gemm_bytes(300, 256));
  ops::pack_gemm_weight(args.weight, args.packed, golden.stream());
  ops::gemm(args, golden.stream());
  const int64_t f_dims[] = {2, 40, 40, 16}, k_dims[] = {16, 16, 3, 3, 3};
  ops::CausalConv3dArgs conv{.x = golden.empty(f_dims), .y = golden.empty(f_dims)};
  conv.packed = golden.bytes(ops::packed_conv3d_bytes(16, 16, 3, 3, 3));
  ops::pack_conv3d_weight(golden.empty(k_dims), conv.packed, golden.stream());
  ops::causal_conv3d(conv, golden.stream());
  EXPECT_EQ(threads_of_process(), before);
  std::thread([&] {
    std::vector<float> plain(16 * 16 * 3 * 3);
    std::vector<char> packed(static_cast<size_t>(cpu::packed_conv_bytes(16, 16, 3, 3)));
    cpu::pack_conv(16, 16, 3, 3, plain.data(), packed.data());
  }).join();
  // A joined thread leaves the process table a moment after the join; a team of threads would stay.
  for (int wait = 0; wait < 200 && threads_of_process() != before; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(threads_of_process(), before);
}

}  // namespace
}  // namespace tachy
