// Tests the signature of a captured step: with another set of adapters or another precision, it is another
// step.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/step_graph.h"

namespace tachy {
namespace {

struct SomeAdapters final : Adapters {
  explicit SomeAdapters(std::vector<uint64_t> layout) { layout_ = std::move(layout); }
};

TEST(StepSignature, KnowsAStreamsPrecision) {
  ThreadPool pool(1);
  Arena arena(256);
  Stream stream{.arena = &arena, .pool = &pool};
  const auto of = [&](const Precision& precision) {
    stream.precision = precision;
    return runtime::StepSignature().add(stream);
  };
  const Precision changed[] = {{.activation = DType::bf16},
                               {.residual = DType::bf16},
                               {.compute = Compute::bf16},
                               {.definitions = true},
                               {.attention_int8 = true}};
  for (const Precision& precision : changed) {
    EXPECT_EQ(of(precision), of(precision));
    EXPECT_NE(of(precision), of({}));
  }
}

TEST(StepSignature, KnowsWhatAStreamDoesWithout) {
  ThreadPool pool(1);
  Arena arena(256);
  Stream stream{.arena = &arena, .pool = &pool};
  const auto of = [&](const Without& without) {
    stream.without = without;
    return runtime::StepSignature().add(stream);
  };
  Without norms, kernel, other;
  norms.add(Optimisation::fused_norms), kernel.add_kernel("gemm", "cublaslt");
  other.add_kernel("gemm", "cpu");
  const Without all[] = {{}, norms, kernel, other};
  for (const Without& a : all)
    for (const Without& b : all) EXPECT_EQ(of(a) == of(b), &a == &b);
}

TEST(StepSignature, KnowsAStreamsAdapters) {
  ThreadPool pool(1);
  Arena arena(256);
  Stream stream{.arena = &arena, .pool = &pool};
  const auto signature = [&] {
    runtime::StepSignature out;
    out.add(stream);
    return out;
  };
  const auto plain = signature();
  EXPECT_EQ(signature(), plain);
  const SomeAdapters some({1, 2}), alike({1, 2}), others({1, 3});
  stream.adapters = &some;
  const auto first = signature();
  EXPECT_NE(first, plain);
  stream.adapters = &alike;
  EXPECT_EQ(signature(), first) << "they may take each other's place";
  stream.adapters = &others;
  EXPECT_NE(signature(), first);
  stream.adapters = nullptr;
  EXPECT_EQ(signature(), plain);
}

}  // namespace
}  // namespace tachy
