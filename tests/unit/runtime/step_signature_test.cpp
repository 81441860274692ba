// What a captured step is known by: where another set of adapters or another precision is used, it is another step.
#include <gtest/gtest.h>

#include <optional>

#include "runtime/step_graph.h"

namespace tachy {
namespace {

class SomeAdapters final : public Adapters {};

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
  std::optional<SomeAdapters> set;
  stream.adapters = &set.emplace();
  const auto first = signature();
  EXPECT_NE(first, plain);
  EXPECT_EQ(signature(), first);
  stream.adapters = &set.emplace();
  EXPECT_NE(signature(), first) << "others at the same address";
  stream.adapters = nullptr;
  EXPECT_EQ(signature(), plain);
}

}  // namespace
}  // namespace tachy
