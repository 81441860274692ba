// Times what two ranks exchange around one attention: barriers alone, and q, k, v of true shapes, by a kernel and by
// the copy engines, queued one after another and replayed as a graph. Ranks are on two cards, or on one if there is
// one. Build: link it as a program of the GPU's build folder (bench/notes/several_gpus.md says how).
#include <cstdio>
#include <thread>
#include <vector>

#include "cuda/graph.h"
#include "cuda/peers.h"
#include "tensor/memory.h"

namespace {

using tachy::cuda::PeerGroup;
using tachy::cuda::PeerRows;

struct Case {
  const char* name;
  size_t tokens, heads;  // of the whole clip; values are of 16 bits, 128 for each head
};

// Calls work(rank) in a thread for each rank, and returns the longest time on a device.
template <class Work>
double longest_us(std::vector<std::unique_ptr<tachy::cuda::Gpu>>& gpus, const Work& work) {
  std::vector<double> us(gpus.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < gpus.size(); ++rank)
    threads.emplace_back([&, rank] { us[rank] = tachy::cuda::device_us(*gpus[rank], [&] { work(rank); }); });
  for (std::thread& t : threads) t.join();
  return *std::max_element(us.begin(), us.end());
}

}  // namespace

int main() {
  constexpr int kTimes = 50;
  const int cards = tachy::cuda::gpu_count();
  if (cards == 0) return 1;
  std::vector<std::unique_ptr<tachy::cuda::Gpu>> gpus;
  for (int rank = 0; rank < 2; ++rank) gpus.push_back(tachy::cuda::open_gpu(rank % cards));
  std::vector<tachy::cuda::Gpu*> both = {gpus[0].get(), gpus[1].get()};
  const auto peers = tachy::cuda::join_peers(both);
  std::printf("ranks on %d card(s); us on the device\n", std::min(cards, 2));
  for (int again = 0; again < 2; ++again)
    std::printf("two barriers: %.2f\n", longest_us(gpus, [&](size_t rank) {
                                          for (int i = 0; i < 2 * kTimes; ++i)
                                            peers->barrier(static_cast<int>(rank));
                                        }) / kTimes);
  for (const Case& c : {Case{"14B 720p", 75600, 40},
                        {"14B 480p", 32760, 40},
                        {"1.3B 480p", 32760, 12},
                        {"1.3B 480p 17 frames", 7800, 12},
                        {"small", 1560, 12}}) {
    const size_t width = c.heads / 2 * 128 * 2, own = c.tokens / 2;
    std::vector<tachy::Buffer> from, to;
    for (const auto& gpu : gpus)
      from.emplace_back(own * width * 2 * 3, gpu.get()), to.emplace_back(c.tokens * width * 3, gpu.get());
    for (const PeerGroup::Way way : {PeerGroup::Way::kernel, PeerGroup::Way::engines}) {
      const auto rows_of = [&](size_t rank, const auto& use) {
        std::vector<PeerRows> rows;
        for (size_t peer = 0; peer < 2; ++peer)
          for (size_t i = 0; i < 3; ++i)
            rows.push_back(
                {.to = static_cast<char*>(to[peer].data()) + (i * c.tokens + rank * own) * width,
                 .from = static_cast<char*>(from[rank].data()) + i * own * width * 2 + peer * width,
                 .width = width,
                 .rows = own,
                 .to_pitch = width,
                 .from_pitch = 2 * width,
                 .own = peer == rank});
        use(rows);
      };
      const auto exchange = [&](size_t rank) {
        peers->barrier(static_cast<int>(rank));
        rows_of(rank,
                [&](std::span<const PeerRows> rows) { peers->push(static_cast<int>(rank), rows, way); });
        peers->barrier(static_cast<int>(rank));
      };
      const auto all = [&](size_t rank) {
        for (int i = 0; i < kTimes; ++i) exchange(rank);
      };
      for (size_t rank = 0; rank < 2; ++rank)  // loads kernels while nobody waits on a device
        rows_of(rank,
                [&](std::span<const PeerRows> rows) { peers->push(static_cast<int>(rank), rows, way); });
      for (const auto& gpu : gpus) gpu->synchronize();
      longest_us(gpus, all);
      const double queued = longest_us(gpus, all) / kTimes;
      std::vector<std::unique_ptr<tachy::cuda::Graph>> graphs;
      for (size_t rank = 0; rank < 2; ++rank)
        graphs.push_back(tachy::cuda::capture(*gpus[rank], [&] { all(rank); }));
      longest_us(gpus, [&](size_t rank) { graphs[rank]->launch(); });
      const double replayed = longest_us(gpus, [&](size_t rank) { graphs[rank]->launch(); }) / kTimes;
      const double bytes = 3.0 * static_cast<double>(own * width);
      std::printf("%-22s %-8s queued %9.1f  replayed %9.1f  (%.0f GB/s sent)\n", c.name,
                  way == PeerGroup::Way::kernel ? "kernel" : "engines", queued, replayed,
                  bytes / replayed * 1e-3);
    }
  }
  for (const auto& gpu : gpus) gpu->synchronize();
  peers->check();
  return 0;
}
