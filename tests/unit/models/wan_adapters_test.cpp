// Tests the Wan transformer with adapters. For jobs that ask for adapters it computes as if they were merged
// into its weights, while others use the same model unchanged.
#include "wan_adapters.h"

#include <gtest/gtest.h>

#include <latch>
#include <thread>

namespace tachy {
namespace {

using Case = test::WanDitCase;

double error_of(const Case& c, std::vector<float>& y, std::vector<float>& want) {
  const Tensor sample = c.golden["sample"];
  return test::error_of(Tensor(y.data(), DType::f32, sample.shape()),
                        Tensor(want.data(), DType::f32, sample.shape()));
}

class WanWithAdapters : public testing::TestWithParam<const char*> {};

// The adapters cover the patches, the time and text embeddings, the image branch, each part of a block, and
// the head.
TEST_P(WanWithAdapters, OfEveryLayerComputesAsIfTheyWereMerged) {
  for (const bool pack : {true, false}) {
    Case plain(GetParam()), adapted(GetParam()), merged(GetParam());
    const test::WanAdapters made(adapted);
    adapted.adapters = made.all, merged.weights = made.merged(made.all);
    test::PlannedRun run{.pack = pack}, other{.pack = pack}, threads{.threads = 3, .pack = pack};
    auto got = adapted.run(run), want = merged.run(other), base = plain.run(other);
    EXPECT_LE(error_of(plain, got, want), 2 * plain.golden.bound()) << "pack " << pack;
    EXPECT_GT(error_of(plain, base, want), 0.05) << "the adapters do too little to be seen";
    EXPECT_EQ(run.planned_store, run.store_bytes);
    EXPECT_EQ(run.arena_bytes, run.arena_peak);
    EXPECT_EQ(adapted.run(threads), got) << "bits depend on threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, WanWithAdapters,
                         testing::Values("t2v", "t2v_bf16", "plain_cross", "i2v", "ti2v", "flf2v"),
                         [](const auto& info) { return std::string(info.param); });

// Scratch, stream and tensors of one job; the model belongs to somebody else.
struct Job {
  ThreadPool pool{2};
  Arena arena{size_t{64} << 20};
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store{{}, stream};
};

TEST(WanAdapters, AreNotSeenByThoseWhoShareTheModel) {
  const Case c("t2v");
  const test::WanAdapters made(c);
  const auto some = made.of({"blocks.0.attn1.to_q", "blocks.0.ffn.net.0.proj"});
  ASSERT_EQ(some.size(), 2u);
  Job owner, with, without;
  const auto model = c.load(owner.store);
  auto plain = c.pass(*model, without.store);
  Case merged("t2v");
  merged.weights = made.merged(some);
  test::PlannedRun run;
  auto want = merged.run(run);

  const nn::AdapterSet set(some, model->linears(), "transformer", with.store);
  with.stream.adapters = &set;
  std::latch both(2);
  std::vector<std::vector<float>> adapted, unchanged;
  const auto passes = [&](Job& job, std::vector<std::vector<float>>& to) {
    both.arrive_and_wait();
    for (int i = 0; i < 5; ++i) to.push_back(c.pass(*model, job.store));
  };
  std::thread other([&] { passes(with, adapted); });
  passes(without, unchanged);
  other.join();
  for (const auto& y : unchanged) EXPECT_EQ(y, plain);
  for (auto& y : adapted) {
    EXPECT_LE(error_of(c, y, want), 2 * c.golden.bound());
    EXPECT_EQ(y, adapted.front());
  }
  EXPECT_GT(error_of(c, plain, want), 1e-3);
}

TEST(WanAdapters, OfAnotherModelAreRefused) {
  const Case c("t2v");
  const test::WanAdapters made(c);
  Job first, second;
  const auto model = c.load(first.store), again = c.load(second.store);
  const nn::AdapterSet set(made.all, model->linears(), "transformer", first.store);
  second.stream.adapters = &set;
  EXPECT_THROW(c.pass(*again, second.store), Error) << "a model that was loaded anew";
  EXPECT_NO_THROW(c.pass(*model, second.store));
}

}  // namespace
}  // namespace tachy
