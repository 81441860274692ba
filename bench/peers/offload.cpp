// Measures what keeping blocks on the host costs on a GPU: one forward pass of a transformer with all blocks
// resident, then with some of them passing through two slots. The outputs must have the same bits, and the
// peak must be the planned one.
//
//   offload FOLDER DTYPE T H W TEXT_ROWS REPEATS STREAMED…
//
// FOLDER holds a transformer (its weights may be random); latents and text are seeded noise. For each
// placement it prints the load rate, the time of a forward pass both eager and as a graph, that of the copies
// alone, the sum and the longer of both, and the peak in bytes, measured and planned.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "cuda/graph.h"
#include "session/parts.h"
#include "tensor/random.h"
#include "tensor/streaming_memory.h"
#include "tensor/transfer.h"

using namespace tachy;

namespace {

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Case {
  int64_t t, h, w, rows;
  int repeats;
  DType dtype;
};

struct Outcome {
  std::vector<float> out;
  double eager = 0, graph = 0;
};

Outcome run(const TransformerFiles& files, const Case& k, int64_t streamed, double resident_ms) {
  const auto gpu = cuda::open_gpu(0);
  auto* streaming = StreamingMemory::of(gpu.get());
  ThreadPool pool(available_processors());
  Arena measure;
  Stream stream{.arena = &measure,
                .pool = &pool,
                .gpu = gpu.get(),
                .memory = gpu.get(),
                .precision = {.activation = k.dtype}};
  const WanConfig& c = files.config;
  std::vector<float> latents(static_cast<size_t>(c.in_channels * k.t * k.h * k.w)),
      text(static_cast<size_t>(k.rows * c.text_dim));
  torch_cpu_normal(1, latents), torch_cpu_normal(2, text);
  const double timestep[] = {700};
  Outcome outcome;
  size_t planned = 0, block_bytes = 0;
  const auto body = [&](bool plan) {
    nn::ParamStore store({.plan_only = plan, .streamed = streamed}, stream);
    const auto start = std::chrono::steady_clock::now();
    const auto model = load_component(files.source, "transformer", {}, [&](const Scope& scope) {
      return std::make_unique<WanDit>(scope, c, store);
    });
    if (!plan) {
      gpu->synchronize();
      const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const auto bytes = static_cast<double>(store.bytes() + store.host_bytes());
      fmt::print("  load: {:.2f} s, {:.1f} GB/s ({} on the GPU, {} page-locked, block {})\n", s,
                 bytes / s / 1e9, store.bytes(), store.host_bytes(), store.block_bytes());
    }
    block_bytes = store.block_bytes();
    const Tensor x = store.uploaded(latents.data(), DType::f32, {1, c.in_channels, k.t, k.h, k.w});
    const Tensor y = store.allocate(DType::f32, {1, c.out_channels, k.t, k.h, k.w});
    const Tensor words = store.uploaded(text.data(), DType::f32, {k.rows, c.text_dim});
    const WanGrid grid = model->make_grid(k.t, k.h, k.w, store);
    const WanContext context = model->make_context(words, 512, {}, store);
    const WanInput in{
        .latents = x, .grid = &grid, .times = model->make_times(timestep, store), .contexts = {&context}};
    if (plan) {
      model->forward(in, y, stream);
      planned = store.bytes() + align_up(measure.peak());
      return;
    }
    const auto work = [&] { model->forward(in, y, stream); };
    std::vector<double> eager, graph;
    work(), gpu->synchronize();
    for (int i = 0; i < k.repeats; ++i) eager.push_back(cuda::device_us(*gpu, work) / 1000);
    const auto captured = cuda::capture(*gpu, work);
    captured->launch();
    for (int i = 0; i < k.repeats; ++i)
      graph.push_back(cuda::device_us(*gpu, [&] { captured->launch(); }) / 1000);
    gpu->fill(y.data, 0xff, static_cast<size_t>(y.bytes()));
    captured->launch();
    outcome.out.resize(static_cast<size_t>(y.numel()));
    download(y, outcome.out.data(), stream);
    outcome.eager = median(eager), outcome.graph = median(graph);
    double copies = 0;
    if (streamed > 0) {  // copies the same bytes while nothing else runs
      Buffer slot(block_bytes, gpu.get()), image(block_bytes);
      std::memset(image.data(), 1, image.size());
      streaming->pin(image.data(), image.size());
      std::vector<double> alone;
      for (int i = 0; i < k.repeats; ++i)
        alone.push_back(cuda::device_us(*gpu,
                                        [&] {
                                          for (int64_t b = 0; b < streamed; ++b)
                                            streaming->copy_beside(slot.data(), image.data(), image.size(),
                                                                   0);
                                          streaming->wait_beside(0);
                                        }) /
                        1000);
      gpu->synchronize();
      streaming->unpin(image.data());
      copies = median(alone);
    }
    const double bound = std::max(copies, resident_ms);
    fmt::print(
        "  forward: eager {:.3f} ms, graph of {} nodes {:.3f} ms; copies alone {:.3f} ms ({:.1f} GB/s)",
        outcome.eager, captured->nodes(), outcome.graph, copies,
        copies > 0 ? static_cast<double>(streamed) * static_cast<double>(block_bytes) / copies / 1e6 : 0);
    if (streamed > 0)
      fmt::print("; the longer of compute and copies {:.3f} ms: {:.3f} of it", bound, outcome.graph / bound);
    fmt::print("\n");
    std::fflush(stdout);
  };
  body(true);
  {
    Arena arena(std::max<size_t>(measure.peak(), 1), gpu.get());
    stream.arena = &arena;
    gpu->reset_peak();
    body(false);
  }
  // The slot for the copies alone is added once, after the peak of the forward pass.
  const size_t over = streamed > 0 ? align_up(block_bytes) : 0;
  fmt::print("  peak {} bytes, planned {} ({})\n", gpu->peak_bytes(), planned + over,
             gpu->peak_bytes() == planned + over ? "equal" : "DIFFERENT");
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc >= 9, "usage: offload FOLDER DTYPE T H W TEXT_ROWS REPEATS STREAMED...");
    const std::string dtype = argv[2];
    const Case k{
        std::atol(argv[3]), std::atol(argv[4]),
        std::atol(argv[5]), std::atol(argv[6]),
        std::atoi(argv[7]), dtype == "bf16" ? DType::bf16 : dtype == "f16" ? DType::f16 : DType::f32};
    const TransformerFiles files = open_transformer(argv[1]);
    fmt::print("resident ({} blocks, latents {}x{}x{})\n", files.config.num_layers, k.t, k.h, k.w);
    const Outcome resident = run(files, k, 0, 0);
    bool same =
        std::all_of(resident.out.begin(), resident.out.end(), [](float v) { return std::isfinite(v); });
    for (int i = 8; i < argc; ++i) {
      fmt::print("{} streamed\n", argv[i]);
      const Outcome other = run(files, k, std::atol(argv[i]), resident.graph);
      const bool equal = std::memcmp(other.out.data(), resident.out.data(), other.out.size() * 4) == 0;
      fmt::print("  outputs {}\n", equal ? "bit-equal" : "DIFFER");
      same = same && equal;
    }
    return same ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "offload: {}\n", e.what());
    return 1;
  }
}
