// Every implementation of every op runs on its tiny and odd cases: it is compared with the definition,
// bitwise and for canaries. Further tests prove that the runner notices a wrong op.
#include "inspect/op_runner.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "../pipelines/host_device.h"
#include "ops/gemm/gemm_cases.h"
#include "ops/op_helpers.h"
#include "random_cases.h"

namespace tachy {
namespace {

// Returns the definitions' results for the first seed, which do not depend on the instruction set.
OpDefinitions& definitions() {
  static OpDefinitions kept;
  return kept;
}

TEST(OpRunner, EveryImplementationKeepsToTheDefinition) {
  const auto results = run_ops({.kept = &definitions()});
  std::set<std::string> compared;
  for (const OpResult& r : results) {
    EXPECT_TRUE(r.ok) << r.mode << ": " << r.detail << "\n" << r.repeat();
    if (r.mode == "ref" && !r.skipped) compared.insert(r.op);
  }
  // Without this, an empty list of cases, or a fast path that declines everything, would pass silently.
  for (const char* op : {"activation",     "add_norm",
                         "all_finite",     "attention",
                         "channel_norm",   "clamp",
                         "copy",           "dequantize",
                         "gated_residual", "glu",
                         "group_norm",     "quantize",
                         "reparameterize", "layernorm_modulate",
                         "lincomb",        "mark_nonfinite",
                         "qk_norm_rope",   "rmsnorm",
                         "rope",           "scaled_gemm",
                         "to_rgb8",        "widen"})
    EXPECT_TRUE(compared.contains(op)) << op << " was not compared with its definition";
}

// A case that is only timed draws a million values of a large weight. The others must not be zeros, which a GPU multiplies
// at a higher clock.
TEST(OpRunner, TimedCasesHaveValuesEverywhere) {
  ops::CaseMemory memory(1, ops::CaseKind::real, {.dtype = DType::bf16, .tiled = true});
  const Tensor weight = memory.host_weight({1200, 300, 3, 3});
  const int64_t drawn = memory.drawn(weight.numel());
  ASSERT_EQ(drawn, 1 << 20);
  ASSERT_GT(weight.numel(), 3 * drawn);
  const auto* values = weight.as<float>();
  for (int64_t i = drawn; i < weight.numel(); ++i) ASSERT_EQ(values[i], values[i % drawn]) << i;
  EXPECT_LT(std::count(values, values + drawn, 0.0f), 100);
}

// On a device, too: codes and activations repeat what was drawn, and indices are drawn whole.
TEST(OpRunner, TimedCasesHaveValuesEverywhereOnADevice) {
  test::HostDevice device(size_t{1} << 30);
  ops::CaseMemory memory(1, ops::CaseKind::real, {.dtype = DType::bf16, .device = &device, .tiled = true});
  constexpr int64_t kCount = (5 << 20) / 2, kDrawn = 1 << 20;
  const Tensor codes = memory.normal_as(DType::f8_e4m3, {kCount}), numbers = memory.normal({kCount}),
               wide = memory.param({kCount}), ids = memory.rows(kCount, 1 << 30);
  memory.finish();
  const auto repeats = [&](const Tensor& t) {
    const auto size = static_cast<size_t>(dtype_size(t.dtype));
    const auto* data = static_cast<const char*>(t.data);
    int64_t unlike = 0, zeros = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const char *at = data + static_cast<size_t>(i) * size,
                 *first = data + static_cast<size_t>(i % kDrawn) * size;
      unlike += std::memcmp(at, first, size) != 0;
      zeros += std::all_of(at, at + size, [](char c) { return c == 0; });
    }
    return std::pair(unlike, zeros < kCount / 100);
  };
  EXPECT_EQ(numbers.dtype, DType::bf16);
  for (const Tensor& t : {codes, numbers, wide}) EXPECT_EQ(repeats(t), std::pair(int64_t{0}, true));
  EXPECT_GT(repeats(ids).first, kCount / 2);
  const Tensor drawn = memory.host(wide);
  for (int64_t i = 0; i < kDrawn; ++i) ASSERT_EQ(wide.as<float>()[i], drawn.as<float>()[i]) << i;
}

// Other values are used in all but the largest shapes, whose definitions take longest.
TEST(OpRunner, AnotherSeedAgreesToo) {
  for (const OpResult& r : run_ops({.bitwise = false, .canary = false, .seed = 7, .max_flops = 2e7}))
    EXPECT_TRUE(r.ok) << r.mode << ": " << r.detail << "\n" << r.repeat();
}

TEST(OpRunner, AttentionOfRandomShapes) {
  const auto cases = ops::random_attention_cases(20261123, 300);
  int compared = 0;
  for (const OpResult& r : run_ops({.bitwise = false, .canary = false}, cases)) {
    EXPECT_TRUE(r.ok) << r.mode << ": " << r.detail << "\n" << r.id() << ", --random 300 --seed 20261123";
    compared += !r.skipped;
  }
  EXPECT_GE(compared, 300);
}

TEST(OpRunner, ProductsAndConvolutionsOfRandomShapes) {
  for (const char* of : {"products", "convolutions"}) {
    int compared = 0;
    for (const OpResult& r :
         run_ops({.bitwise = false, .canary = false}, random_cases({100, of}, 20261129))) {
      EXPECT_TRUE(r.ok) << r.mode << ": " << r.detail << "\n"
                        << r.id() << ", --random 100 --seed 20261129 --of " << of;
      compared += !r.skipped;
    }
    EXPECT_GE(compared, 80);
  }
}

// The same source is run for the instruction sets in between. The widest one is tested above; AVX2 and SSE4
// have entries of their own with all cases (`ctest -L isa`), where oneDNN is limited to them as well.
TEST(OpRunner, InstructionSetsBetween) {
  std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  targets.erase(targets.begin());  // beginning with the widest
  int count = 0;
  for (const int64_t target : targets) {
    if (target == HWY_AVX2 || target == HWY_SSE4) continue;
    hwy::SetSupportedTargetsForTest(target);
    for (const OpResult& r : run_ops({.bitwise = false, .kept = &definitions()}))
      EXPECT_TRUE(r.ok) << hwy::TargetName(target) << ": " << r.mode << ": " << r.detail << "\n"
                        << r.repeat();
    ++count;
  }
  hwy::SetSupportedTargetsForTest(0);
  if (count == 0) GTEST_SKIP() << "this machine has none";
}

TEST(OpRunner, NoTwoCasesHaveOneName) {
  std::set<std::string> names;
  for (const ops::OpCase& c : all_op_cases())
    EXPECT_TRUE(names.insert(c.op + ":" + c.name).second) << c.op << ":" << c.name;
}

TEST(OpRunner, FilterPicksOneCase) {
  const auto results = run_ops({.filter = "rope:2x18x3x10:cpu"});
  ASSERT_EQ(results.size(), 3u);
  for (const OpResult& r : results) EXPECT_EQ(r.impl, "cpu");
  EXPECT_EQ(results[0].id(), "rope:2x18x3x10-strided:cpu");
}

// For a large product the definition computes only some rows: right results pass every mode, a wrong sampled
// row fails against the definition, and a byte written beside the result fails as a canary.
TEST(OpRunner, DefinitionsOfSamples) {
  enum class Fault { none, row, guard } fault = Fault::none;
  const ops::GemmCase shape{
      ops::CaseKind::tiny, 200, 40, 24, {.bias = true, .residual = true, .sampled = true}};
  const ops::OpCase op_case{"gemm", "sampled", ops::CaseKind::tiny, 1, 1, [&](ops::CaseMemory& memory) {
                              ops::BoundOp op = ops::make_gemm_case(memory, shape);
                              EXPECT_EQ(op.outputs.size(), 3u);
                              op.run = [&fault, run = op.run, y = op.written.at(0)](const std::string& impl,
                                                                                    Stream& stream) {
                                run(impl, stream);
                                if (stream.measuring() || impl == "ref" || impl == "working") return;
                                auto* values = y.as<float>();
                                if (fault == Fault::row) values[100 * 40] += 1;
                                if (fault == Fault::guard) values[200 * 40] = 1;
                              };
                              return op;
                            }};
  const auto failed = [&](Fault now) {
    fault = now;
    std::set<std::string> modes;
    int ran = 0;
    for (const OpResult& r : run_ops({.threads = 1}, {op_case})) {
      if (r.impl == "ref") continue;
      ran += !r.skipped;
      if (!r.ok) modes.insert(r.mode);
    }
    EXPECT_GE(ran, 3);
    return modes;
  };
  EXPECT_EQ(failed(Fault::none), std::set<std::string>());
  EXPECT_EQ(failed(Fault::row), std::set<std::string>{"ref"});
  EXPECT_EQ(failed(Fault::guard), std::set<std::string>{"canary"});
}

// An op that doubles a vector, and ways to get it wrong.
struct DoubleArgs {
  Tensor x, y;
};
enum class Fault {
  none,
  rounding,
  wrong_value,
  unwritten,
  past_the_end,
  before_the_start,
  input,
  threads,
  scratch
};
Fault g_fault;

void double_ref(const DoubleArgs& a, Stream& stream) {
  for (int64_t i = 0; i < a.x.numel(); ++i) a.y.as<float>()[i] = 2 * a.x.as<float>()[i];
}

void double_fast(const DoubleArgs& a, Stream& stream) {
  const int64_t n = a.x.numel();
  ArenaScope scope(*stream.arena);
  // The plan does not count these bytes.
  if (g_fault == Fault::scratch && !stream.measuring()) stream.arena->bytes(100);
  if (stream.measuring()) return;
  double_ref(a, stream);
  float *x = a.x.as<float>(), *y = a.y.as<float>();
  if (g_fault == Fault::rounding) y[0] = std::nextafter(y[0], INFINITY);
  if (g_fault == Fault::wrong_value) y[n - 1] *= 1.0001f;
  if (g_fault == Fault::unwritten) y[n / 2] = NAN;
  if (g_fault == Fault::past_the_end) y[n] = 0;
  if (g_fault == Fault::before_the_start) y[-1] = 0;
  if (g_fault == Fault::input) x[1] = 5;
  if (g_fault == Fault::threads) y[0] *= 1.0f + 1e-7f * static_cast<float>(stream.threads());
}

constexpr ops::Impl<DoubleArgs> kDoubleTable[] = {{"fast", nullptr, double_fast},
                                                  {"ref", nullptr, double_ref}};

void double_op(const DoubleArgs& a, Stream& stream) {
  ops::pick<DoubleArgs>("double", kDoubleTable, a, stream).run(a, stream);
}

std::set<std::string> failed_modes(Fault fault, bool exact) {
  g_fault = fault;
  const std::vector<ops::OpCase> cases = {
      {"double", "100", ops::CaseKind::odd, 800, 100, [exact](ops::CaseMemory& memory) {
         DoubleArgs args{memory.normal({100}), memory.output({100})};
         return ops::bind_op<DoubleArgs>("double", double_op, kDoubleTable, exact ? nullptr : double_ref,
                                         args, {args.y});
       }}};
  std::set<std::string> failed;
  for (const OpResult& r : run_ops({.filter = "double::fast"}, cases))
    if (!r.ok) failed.insert(r.mode);
  return failed;
}

TEST(OpRunner, NoticesFaults) {
  using Modes = std::set<std::string>;
  EXPECT_EQ(failed_modes(Fault::none, true), Modes{});
  EXPECT_EQ(failed_modes(Fault::none, false), Modes{});
  EXPECT_EQ(failed_modes(Fault::rounding, true), Modes{"ref"});
  EXPECT_EQ(failed_modes(Fault::rounding, false), Modes{});  // within two units of the largest value
  EXPECT_EQ(failed_modes(Fault::wrong_value, false), Modes{"ref"});
  EXPECT_EQ(failed_modes(Fault::unwritten, false), Modes{"ref"});
  EXPECT_EQ(failed_modes(Fault::past_the_end, false), Modes{"canary"});
  EXPECT_EQ(failed_modes(Fault::before_the_start, false), Modes{"canary"});
  EXPECT_TRUE(failed_modes(Fault::input, true).contains("canary"));
  EXPECT_TRUE(failed_modes(Fault::threads, false).contains("bitwise"));
  EXPECT_EQ(failed_modes(Fault::scratch, true), (Modes{"bitwise", "canary", "ref"}));
}

}  // namespace
}  // namespace tachy
