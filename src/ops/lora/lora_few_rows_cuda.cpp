// Chooses the tiles with which the kernels for few rows run: those that were measured once on this GPU and
// stored, or the usual ones.
#include <mutex>
#include <unordered_map>

#include "base/env.h"
#include "base/log.h"
#include "cuda/vendor/algorithm_cache.h"
#include "cuda/vendor/matmul_trials.h"
#include "cuda/vendor/trial_times.h"
#include "ops/lora/lora_few_rows.h"

namespace tachy::ops {
namespace {

constexpr int kSteps = 32;  // values of K that a warp takes at a time
constexpr int kMostSplits = 32;

std::string key_of(const LoraArgs& a, const LoraShape& s) {
  return fmt::format("{} m{} k{} n{} r{} adapters{}{}{}", dtype_name(a.x.dtype), s.m, s.k, s.n, s.rank,
                     s.adapters, a.index.defined() ? " index" : "", a.accumulate ? " add" : "");
}

// The choices for one GPU, in this process.
struct Kept {
  explicit Kept(const cuda::GpuInfo& gpu) : file(fmt::format("lora-{}-1", cuda::measured_on(gpu))) {}
  cuda::AlgorithmCache file;
  std::unordered_map<std::string, LoraTiles> known;
};

std::optional<LoraTiles> tiles_of(const cuda::AlgorithmWords* words) {
  if (!words) return std::nullopt;
  const auto in = [&](size_t i, uint64_t least, uint64_t most) {
    return (*words)[i] >= least && (*words)[i] <= most;
  };
  if (!in(0, 1, kMostSplits) || !in(1, 1, 8) || !in(2, 1, 8)) return std::nullopt;
  return LoraTiles{static_cast<int>((*words)[0]), static_cast<int>((*words)[1]),
                   static_cast<int>((*words)[2])};
}

std::vector<LoraTiles> candidates(const LoraShape& s, const LoraTiles& usual) {
  std::vector<LoraTiles> all = {usual};
  for (const int splits : {1, 2, 4, 8, 16, kMostSplits})
    for (const int down : {4, 8})
      for (const int up : {1, 2, 4, 8}) {
        if (splits > 1 && s.k / splits < kSteps * down) continue;  // some warps would have no step
        all.push_back({splits, down, up});
      }
  return all;
}

// A call of this shape on its own memory; with several adapters, neighbouring rows use different ones.
struct TrialCall {
  TrialCall(const LoraArgs& a, const LoraShape& s, cuda::Gpu& gpu)
      : x(gpu, s.m * s.k, a.x.dtype, 16),
        a_values(gpu, s.adapters * s.rank * s.k, a.x.dtype, 16),
        b_values(gpu, s.adapters * s.n * s.rank, a.x.dtype, 16),
        y(gpu, s.m * s.n, a.x.dtype, 16),
        index(gpu, s.m, DType::f32, 16),
        scratch(static_cast<size_t>(kMostSplits * s.m * s.adapters * s.rank) * sizeof(float) + kAlignment,
                &gpu) {
    const Device device = gpu.device();
    args = {.x = Tensor(x.data, a.x.dtype, {s.m, s.k}, device),
            .a = Tensor(a_values.data, a.x.dtype, {s.adapters, s.rank, s.k}, device),
            .b = Tensor(b_values.data, a.x.dtype, {s.adapters, s.n, s.rank}, device),
            .scales = {},
            .index = {},
            .accumulate = a.accumulate,
            .y = Tensor(y.data, a.x.dtype, {s.m, s.n}, device)};
    if (!a.index.defined()) return;
    std::vector<int32_t> each;
    for (int64_t i = 0; i < s.m; ++i) each.push_back(static_cast<int32_t>(i % s.adapters));
    gpu.upload(index.data, each.data(), each.size() * sizeof(int32_t));
    args.index = Tensor(index.data, DType::i32, {s.m}, device);
  }
  cuda::Trial x, a_values, b_values, y, index;
  Arena scratch;
  LoraArgs args;
};

LoraTiles measure(const LoraArgs& a, const LoraShape& s, const LoraTiles& usual, Stream& stream) {
  TrialCall trial(a, s, *stream.gpu);
  Stream own = stream;
  own.arena = &trial.scratch, own.hooks = {};
  const std::vector<LoraTiles> all = candidates(s, usual);
  const cuda::TrialPick found = cuda::pick_fastest(
      *stream.gpu, all.size(), [&](size_t i) { run_lora_few_rows(trial.args, all[i], own); });
  const LoraTiles& tiles = all[found.pick];
  log_topic("dispatch", "lora {}: {} shares, {} and {} warps take {:.1f} us, the usual {:.1f}", key_of(a, s),
            tiles.splits, tiles.down_warps, tiles.up_warps, found.us, found.first_us);
  return tiles;
}

}  // namespace

LoraTiles usual_lora_tiles(const LoraShape& s, bool index, const Stream& stream) {
  const int64_t width = index ? s.rank : s.adapters * s.rank;
  const int64_t blocks = (width + 31) / 32 * (index ? s.adapters : 1);
  const int64_t wanted = int64_t{stream.gpu->info().multiprocessors} * 2 / std::max<int64_t>(1, blocks);
  LoraTiles tiles;
  const int64_t most = std::clamp<int64_t>(s.k / (kSteps * tiles.down_warps), 1, kMostSplits);
  tiles.splits = static_cast<int>(std::clamp<int64_t>(wanted, 1, most));
  return tiles;
}

LoraTiles choose_lora_tiles(const LoraArgs& a, const LoraShape& s, Stream& stream) {
  static std::mutex mutex;
  static std::unordered_map<int, Kept> gpus;
  const std::lock_guard lock(mutex);
  const cuda::GpuInfo& gpu = stream.gpu->info();
  Kept& kept = gpus.try_emplace(gpu.index, gpu).first->second;
  const std::string key = key_of(a, s);
  if (const auto found = kept.known.find(key); found != kept.known.end()) return found->second;
  LoraTiles tiles = usual_lora_tiles(s, a.index.defined(), stream);
  static const bool tune = env_string("TACHY_TUNE", "").find("lora") != std::string::npos;
  if (const auto read = tiles_of(kept.file.find(key))) {
    tiles = *read;
  } else if (tune && stream.measuring()) {  // only while a plan is made, when nothing is being recorded
    try {
      tiles = measure(a, s, tiles, stream);
      kept.file.keep(key, {static_cast<uint64_t>(tiles.splits), static_cast<uint64_t>(tiles.down_warps),
                           static_cast<uint64_t>(tiles.up_warps)});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory) throw;
      log_topic("dispatch", "lora {}: not measured: {}", key, error.message());
    }
  }
  return kept.known[key] = tiles;
}

void lora_few_rows(const LoraArgs& a, Stream& stream) {
  run_lora_few_rows(a, choose_lora_tiles(a, lora_shape("lora", a.x, a.a, a.b), stream), stream);
}

}  // namespace tachy::ops
