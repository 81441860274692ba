// Measures what the picking rule (ops/impl_table.h) costs per call, as nanoseconds of `pick` for the calls
// that make up a step of the transformer and a frame of the VAE: in a normal run, whose picks are not
// recorded, and in one that is compared with its plan. Tensors are those of a measure run, so nothing is
// computed.
//   cmake --build build --target lab_pick_cost && build/bench/lab/lab_pick_cost      the CPU's tables
//   build/bench/lab/lab_pick_cost cuda                                                a GPU's
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "cuda/gpu.h"
#include "ops/add_norm/add_norm_impl.h"
#include "ops/attention/attention_impl.h"
#include "ops/conv3d/conv3d_impl.h"
#include "ops/gemm/gemm_impl.h"
#include "ops/impl_table.h"
#include "ops/pick_record.h"

using namespace tachy;

namespace {

constexpr int kCalls = 1 << 18, kRounds = 9;

// Takes the fastest of some rounds, because other work runs on this machine, too.
template <class Args>
void time_pick(const char* what, const char* op, std::span<const ops::Impl<Args>> table, const Args& args,
               const Stream& stream) {
  double best = 1e9;
  const char* name = "";
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) name = ops::pick<Args>(op, table, args, stream).name;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kCalls);
  }
  fmt::print("{:<34} {:<12} {:7.1f} ns\n", what, name, best);
}

void time_all(const Stream& stream) {
  Arena arena;  // measuring
  const DType dtype = stream.gpu ? DType::bf16 : DType::f32;
  constexpr int64_t kTokens = 1536, kWidth = 1536, kHeads = 12, kHead = 128;
  const auto rows = [&](int64_t count, int64_t columns) { return arena.tensor(dtype, {count, columns}); };
  const Tensor x = rows(kTokens, kWidth), y = rows(kTokens, kWidth), weight = rows(kWidth, kWidth),
               bias = arena.tensor(dtype, {kWidth});
  ops::GemmArgs gemm;
  gemm.x = x, gemm.y = y, gemm.weight = weight, gemm.bias = bias;
  time_pick<ops::GemmArgs>("gemm, 1536 x 1536 x 1536", "gemm", ops::gemm_table(), gemm, stream);
  const auto heads = [&](int64_t count) { return arena.tensor(dtype, {1, count, kHeads, kHead}); };
  ops::AttentionArgs self;
  self.q = heads(kTokens), self.k = heads(kTokens), self.v = heads(kTokens), self.out = heads(kTokens);
  self.scale = 0.088f;
  time_pick<ops::AttentionArgs>("attention, 1536 keys", "attention", ops::attention_table(), self, stream);
  ops::AttentionArgs cross = self;
  cross.k = heads(40), cross.v = heads(40), cross.key_bias = arena.f32({1, 40});
  time_pick<ops::AttentionArgs>("attention, 40 keys and a bias", "attention", ops::attention_table(), cross,
                                stream);
  time_pick<ops::AddNormArgs>("add_norm", "add_norm", ops::add_norm_table(), {}, stream);
  const auto frames = [&](int64_t count) { return arena.tensor(dtype, {count, 64, 64, 192}); };
  ops::CausalConv3dArgs conv;
  conv.x = frames(1), conv.y = frames(1), conv.cache = frames(2), conv.front = conv.history = 2;
  conv.kernel_t = conv.kernel_h = conv.kernel_w = 3;
  conv.packed = arena.tensor(DType::u8, {ops::packed_conv3d_bytes(192, 192, 3, 3, 3, stream)});
  time_pick<ops::CausalConv3dArgs>("causal_conv3d, 192 channels", "causal_conv3d", ops::causal_conv3d_table(),
                                   conv, stream);
}

}  // namespace

int main(int argc, char** argv) {
  ThreadPool pool(1);
  std::unique_ptr<cuda::Gpu> gpu;
  if (argc > 1 && !std::strcmp(argv[1], "cuda")) gpu = cuda::open_gpu();
  Arena none(0);  // not measuring
  Stream stream{.arena = &none, .pool = &pool, .gpu = gpu.get(), .memory = gpu.get()};
  time_all(stream);
  ops::PickRecord record;
  fmt::print("compared with a plan:\n");
  for (const char* op : {"gemm", "attention", "add_norm", "causal_conv3d"})
    for (const char* impl : {"f32", "cpu", "onednn", "cublaslt", "flash_sm90", "few_keys", "cuda", "sm90"})
      record.note(op, impl, "");
  const std::vector<ops::OpPick> planned = record.picks();
  ops::PickCheck check(planned);
  stream.hooks.planned = &check;
  time_all(stream);
}
