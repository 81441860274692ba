// Memory must stay the same over many runs of an engine and of a world: small ones here, and with
// TACHY_LEAK_RUNS=300 (`make test-leaks`) also the models that ship. The test counts the heap's bytes in
// use, according to malloc itself, and the resident pages once malloc has released what it holds. Everything
// that a process keeps for good exists after the first tenth of the runs. Freed blocks count as in use while
// glibc's cache of a thread holds them, hundreds of bytes a run: main() switches that cache off.
#include <gmock/gmock.h>
#include <malloc.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "../pipelines/tiny_model.h"
#include "../pipelines/world_model.h"
#include "api/world.h"

namespace tachy {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // the sanitizer's allocator keeps freed memory, and LeakSanitizer checks
                                   // by itself
#else
constexpr bool kSanitized = false;
#endif

constexpr int kSmall = 30;
// No allocation takes fewer bytes than this, so even a single one that each run leaves behind is found.
constexpr double kSmallestBlock = 32;

int runs() {
  const char* asked = std::getenv("TACHY_LEAK_RUNS");
  return asked ? std::max(kSmall, std::atoi(asked)) : kSmall;
}
bool in_full() { return runs() > kSmall; }
const std::string kModels = TACHY_TEST_MODELS;

struct Memory {
  double heap = 0, resident = 0, buffers = 0;  // bytes
};

Memory memory_now() {
  malloc_trim(0);
  const struct mallinfo2 info = mallinfo2();
  std::ifstream statm("/proc/self/statm");
  double pages = 0, resident = 0;
  statm >> pages >> resident;
  return {static_cast<double>(info.uordblks + info.hblkhd),
          resident * static_cast<double>(sysconf(_SC_PAGESIZE)), static_cast<double>(Buffer::live_bytes())};
}

// Calls body(i) for each run. Memory after the first tenth of the runs (a third, if there are few) must not
// grow until the last.
template <class Body>
void expect_level(const char* what, Body&& body) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer looks itself";
  const int all = runs(), settled = in_full() ? all / 10 : all / 3;
  Memory before;
  for (int i = 0; i < all; ++i) {
    if (i == settled) before = memory_now();
    body(i);
  }
  const Memory after = memory_now();
  const double counted = all - settled;
  fmt::print(
      "{}: from run {} to {} the heap grew by {:.0f} bytes ({:.1f} a run), resident memory by {:.0f} KiB of "
      "{:.0f}\n",
      what, settled, all, after.heap - before.heap, (after.heap - before.heap) / counted,
      (after.resident - before.resident) / 1024, before.resident / 1024);
  EXPECT_EQ(after.buffers, before.buffers) << what << ": a Buffer or an arena stays";
  EXPECT_LT((after.heap - before.heap) / counted, kSmallestBlock) << what << ": bytes of the heap a run";
  // In a small process pages are less precise: those of the heap's fragments come and go.
  EXPECT_LT(after.resident - before.resident, before.resident * (in_full() ? 0.01 : 0.05)) << what;
}

TEST(Leaks, OneEngineManyRuns) {
  for (const bool keep : {false, true}) {
    Engine engine(in_full() ? kModels + "/sprites" : test::model_path(), {.threads = 2, .keep_loaded = keep});
    VideoRequest request;
    request.frames = 5, request.steps = 2, request.guidance = 5.0;
    if (!in_full()) request.width = 32, request.height = 16;
    expect_level(keep ? "an engine that keeps its model" : "an engine", [&](int i) {
      request.prompt = "a red cat", request.seed = static_cast<uint64_t>(i);
      int64_t frames = 0;
      VideoCallbacks callbacks;
      callbacks.frame = [&](const RgbImage&, int64_t) { ++frames; };
      callbacks.state = [](const RunStateView&) {};
      engine.generate(request, callbacks);
      ASSERT_EQ(frames, 5);
    });
  }
}

std::shared_ptr<const Picture> picture() {
  Picture p{90, 70, {}};
  for (int i = 0; i < 90 * 70 * 3; ++i)
    p.rgb.push_back(static_cast<uint8_t>(128 + 100 * std::sin(i * 0.013)));
  return std::make_shared<const Picture>(std::move(p));
}

TEST(Leaks, OneWorldManyStarts) {
  std::optional<test::WorldModel> tiny;
  if (!in_full()) tiny.emplace(test::WorldModelOptions{.world = test::WorldModel::world()});
  World world(tiny ? tiny->path() : std::filesystem::path(kModels + "/world"), {.threads = 2});
  expect_level("a world", [&](int i) {
    world.start({.image = picture(), .seed = static_cast<uint64_t>(i)});
    for (int block = 0; block < 3; ++block) {
      world.act({{1, 0, 0, 0}, {}});
      world.next_block([](const RgbImage&, int64_t) {});
    }
    if (i % 5 == 0)
      world.reset();  // not in the last run before either measurement: a session that was reset holds less
  });
}

}  // namespace
}  // namespace tachy

int main(int argc, char** argv) {
  if (!std::getenv("GLIBC_TUNABLES")) {  // the variable is read as a program starts
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    execv("/proc/self/exe", argv);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
