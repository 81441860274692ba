// Times attention whose heads two GPUs divide, as attend_by_heads does in each layer of a transformer, for numbers of
// groups of heads (TACHY_RANK_GROUPS), who copies what stays on its GPU (TACHY_RANK_OWN), queued or in a graph:
// milliseconds a layer, and how much of that is not hidden, which is the time beyond that of the same attention without
// exchanges on both GPUs at once. Results must have equal bits in all of them. Nothing is loaded.
//
//   lab_rank_attention                 the table, for attention of the 14B and the 1.3B without guidance
//   lab_rank_attention --repeat N      repeats a small one N times in each way, and compares; for TACHY_STRESS=SEED
//
// Ranks are on the first two cards, or both on one if there is one.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cuda/graph.h"
#include "ops/attention/attention.h"
#include "runtime/attend_by_heads.h"
#include "runtime/pace.h"
#include "runtime/peer_team.h"
#include "tensor/streaming_memory.h"

using namespace tachy;
using runtime::HeadTensors;

namespace {

struct Case {
  const char* name;
  int64_t tokens, heads;
  int layers;
  bool graphs;  // whether its step is short enough to be captured
};

struct Way {
  const char* groups;
  const char* own;
  bool graph;
};

constexpr int kRanks = 2;
constexpr int64_t kDim = 128;

// Random numbers of a rank, which are made once.
const std::vector<bf16_t>& values_of(int rank) {
  static const auto made = [] {
    std::array<std::vector<bf16_t>, kRanks> all;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (std::vector<bf16_t>& values : all)
      for (int i = 0; i < 1 << 22; ++i) values.push_back(to_bf16(normal(random)));
    return all;
  }();
  return made[static_cast<size_t>(rank)];
}

// A rank's queue, with an arena on its device.
struct Place {
  ThreadPool pool{1};
  Arena arena;
  Stream stream;
  HeadTensors mine;
  Place(cuda::Gpu& gpu, const Case& c, int rank) : arena(size_t{8} << 30, &gpu) {
    stream = {.arena = &arena, .pool = &pool, .gpu = &gpu, .memory = &gpu};
    stream.precision.activation = DType::bf16;
    const std::vector<bf16_t>& values = values_of(rank);
    for (Tensor* t : {&mine.q, &mine.k, &mine.v, &mine.out}) {
      *t = arena.tensor(DType::bf16, {1, c.tokens / kRanks, c.heads, kDim});
      const auto bytes = static_cast<size_t>(t->bytes());
      for (size_t at = 0; at < bytes; at += values.size() * 2)
        gpu.upload(static_cast<char*>(t->data) + at, values.data(), std::min(bytes - at, values.size() * 2));
    }
  }
  void attend(const HeadTensors& t) {
    const int64_t heads = t.q.dim(2);
    const auto n = static_cast<double>(t.q.dim(1));
    const double flops = 4 * n * n * static_cast<double>(kDim);
    int64_t some = runtime::heads_a_call(stream, heads, flops);
    if (some == 0) some = heads;
    for (int64_t h = 0; h < heads; h += some) {
      const auto part = [&](const Tensor& x) { return x.slice(2, h, std::min(heads, h + some)); };
      ops::attention({.q = part(t.q),
                      .k = part(t.k),
                      .v = part(t.v),
                      .scale = 1 / std::sqrt(static_cast<float>(kDim)),
                      .out = part(t.out)},
                     stream);
    }
  }
};

struct Taken {
  double ms = 0;  // a layer
  std::vector<uint64_t> sums;
};

// Runs the layers on both ranks; without a way there is no exchange. `rounds` counts after the first.
Taken run(const Case& c, const Way* way, int rounds) {
  if (way) {
    setenv("TACHY_RANK_GROUPS", way->groups, 1);
    setenv("TACHY_RANK_OWN", way->own, 1);
  }
  std::vector<std::shared_ptr<cuda::Gpu>> gpus;
  for (int rank = 0; rank < kRanks; ++rank) gpus.push_back(cuda::open_gpu(rank % cuda::gpu_count()));
  runtime::PeerTeam team({.groups = 1, .per_group = kRanks}, gpus);
  std::vector<double> ms(kRanks);
  std::vector<uint64_t> sums(kRanks);
  team.run([&](int rank) {
    cuda::Gpu& gpu = *gpus[static_cast<size_t>(rank)];
    Place place(gpu, c, rank);
    runtime::PeerComm& comm = team.comm(rank);
    const runtime::Spread spread{.tokens = c.tokens};
    HeadTensors half;
    if (!way)
      for (Tensor* t : {&half.q, &half.k, &half.v, &half.out})
        *t = place.arena.tensor(DType::bf16, {1, c.tokens, c.heads / kRanks, kDim});
    if (!way) {
      const auto bytes = static_cast<size_t>(place.mine.q.bytes());
      gpu.copy(half.q.data, place.mine.q.data, bytes), gpu.copy(half.k.data, place.mine.k.data, bytes);
      gpu.copy(half.v.data, place.mine.v.data, bytes);
    }
    const auto layers = [&] {
      for (int i = 0; i < c.layers; ++i) {
        const ArenaScope scope(place.arena);
        if (way)
          attend_by_heads(&comm, spread, place.mine, place.stream,
                          [&](const HeadTensors& t) { place.attend(t); });
        else
          place.attend(half);
      }
    };
    comm.set_careful(true);
    layers();
    gpu.synchronize();
    comm.set_careful(false);
    std::unique_ptr<cuda::Graph> graph;
    comm.most(0);
    if (way && way->graph) graph = cuda::capture(gpu, layers);
    const auto once = [&] { graph ? graph->launch() : layers(); };
    comm.most(0);
    once();  // with events, and with the clocks of a loaded card
    gpu.synchronize();
    double best = 1e30;
    for (int round = 0; round < rounds; ++round) {
      comm.most(0);
      best = std::min(best, cuda::device_us(gpu, once));
    }
    ms[static_cast<size_t>(rank)] = best * 1e-3 / c.layers;
    const Tensor& out = way ? place.mine.out : half.out;
    sums[static_cast<size_t>(rank)] =
        StreamingMemory::of(&gpu)->checksum(out.data, static_cast<size_t>(out.bytes()));
    comm.most(0);  // nobody's tensors go before all are done
  });
  return {*std::max_element(ms.begin(), ms.end()), sums};
}

constexpr Way kWays[] = {{"1", "here", false}, {"2", "here", false},   {"2", "beside", false},
                         {"4", "here", false}, {"4", "beside", false}, {"1", "here", true},
                         {"4", "here", true},  {"4", "beside", true}};

int table() {
  bool all_equal = true;
  for (const Case& c : {Case{"14B 720p", 75600, 40, 4, false},
                        {"14B 480p", 32760, 40, 8, false},
                        {"1.3B 480p", 32760, 12, 20, true},
                        {"1.3B 480p 17 frames", 7800, 12, 30, true}}) {
    const double base = run(c, nullptr, 3).ms;
    std::printf("%s: attention of half of the heads %.3f ms a layer\n", c.name, base);
    std::vector<uint64_t> first;
    for (const Way& way : kWays) {
      if (way.graph && !c.graphs) continue;
      const std::string words = std::string(way.groups) + " " + way.own + (way.graph ? " graph" : "");
      try {
        const Taken t = run(c, &way, 3);
        if (first.empty()) first = t.sums;
        const bool equal = t.sums == first;
        all_equal = all_equal && equal;
        std::printf("  %-16s %8.3f ms, not hidden %7.3f ms, bits %016llx%s\n", words.c_str(), t.ms,
                    t.ms - base, static_cast<unsigned long long>(t.sums[0] ^ (t.sums[1] * 3)),
                    equal ? "" : "  DIFFERS");
      } catch (const std::exception& e) {
        std::printf("  %-16s %s\n", words.c_str(), e.what());
      }
      std::fflush(stdout);
    }
  }
  return all_equal ? 0 : 1;
}

int repeat(int times) {
  const Case c{"1.3B 480p", 32760, 12, 1, true};
  int different = 0, done = 0;
  std::vector<uint64_t> first;
  for (const Way& way : kWays)
    for (int i = 0; i < times / 8; ++i, ++done) {
      const Taken t = run(c, &way, 3);
      if (first.empty()) first = t.sums;
      different += t.sums != first;
    }
  std::printf("%d repetitions of 5 layers in 8 ways: %d differ\n", done, different);
  return different ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (cuda::gpu_count() == 0) return 2;
  if (argc == 3 && std::strcmp(argv[1], "--repeat") == 0) return repeat(std::atoi(argv[2]));
  return table();
} catch (const std::exception& e) {
  std::fprintf(stderr, "rank_attention: %s\n", e.what());
  return 2;
}
