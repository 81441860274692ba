// What a captured step is known by: where another set of adapters is used, it is another step.
#include <gtest/gtest.h>

#include <optional>

#include "runtime/step_graph.h"

namespace tachy {
namespace {

class SomeAdapters final : public Adapters {};

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
