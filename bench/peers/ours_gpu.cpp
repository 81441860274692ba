// Our side of the GPU comparison with PyTorch (bench/peers/gpu.py): runs one stage on given values, times it
// as it runs in a generation (captured, replayed), and writes its result for the comparison. Values are raw
// float32 files.
//
//   ours_gpu dit FOLDER DTYPE T H W TEXT_ROWS TIMESTEP LATENTS.bin TEXT.bin OUT.bin REPEATS [f32|low|int8|fp8|fp8-int8|fp8-f32|i8|i8-int8|tf32 [SHARE top-k|sliding-tile | adapters COUNTxRANK]]
//   ours_gpu plan …as for dit (files need not exist): prints the memory that dit would take, loads nothing
//   ours_gpu decode FOLDER DTYPE T H W LATENTS.bin OUT.bin REPEATS [CHUNK [profile]]
//   ours_gpu encode FOLDER DTYPE T H W VIDEO.bin OUT.bin REPEATS [CHUNK [profile]]
//
// DTYPE fp8 (int8) for decode and encode means activations in bf16, and the residual blocks' convolutions in e4m3 (int8); tf32 means float32 whose products round to TF32.
// The word after dit's REPEATS sets the residual stream: float32 (f32), or as the activations (low). int8 is
// low with self-attention in 8 bits; fp8 (i8) is low with the blocks' linear layers in e4m3 (int8); fp8-int8 is both;
// fp8-f32 is fp8 with the residual stream in float32; tf32 (DTYPE f32) has linear layers' products in TF32.
// With a SHARE of all blocks of keys, self-attention is block-sparse, and OUT.bin differs from the dense one
// accordingly. `adapters` adds COUNT random low-rank adapters to every linear layer of the blocks. `profile`
// prints where the time goes, waiting for the GPU at both ends of each part: small parts look 10 to 20 µs
// longer than they are.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>

#include "cuda/graph.h"
#include "gpu_probe.h"
#include "nn/adapter_set.h"
#include "ops/elementwise/elementwise.h"
#include "session/parts.h"
#include "tensor/transfer.h"

using namespace tachy;

namespace {

std::vector<float> read_floats(const std::string& path, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size() * 4));
  check(file.good(), ErrorCode::io, "{}: expected {} float32 values", path, count);
  return out;
}

void write_floats(const std::string& path, const std::vector<float>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Times of a run's parts, by the layer to which they belong and their own name.
class PartTimes : public Profiler {
 public:
  explicit PartTimes(cuda::Gpu& gpu) : gpu_(gpu) {}
  uint64_t begin(const char* name, ProfileKind kind, int64_t index) override {
    gpu_.synchronize();
    open_.push_back({name, kind, index, Clock::now()});
    return 0;
  }
  void end(uint64_t) override {
    gpu_.synchronize();
    const Open part = open_.back();
    open_.pop_back();
    if (part.kind == ProfileKind::group) return;
    const bool grouped = !open_.empty() && open_.back().kind == ProfileKind::group;
    auto& [ms, calls] =
        times_[grouped ? fmt::format("{:2} {:16} {}", open_.back().index, open_.back().name, part.name)
                       : part.name];
    ms += std::chrono::duration<double, std::milli>(Clock::now() - part.start).count(), ++calls;
  }
  void print() const {
    for (const auto& [name, time] : times_)
      fmt::print("  {:56} {:8.3f} ms in {:4}, {:7.1f} us each\n", name, time.first, time.second,
                 1000 * time.first / time.second);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    const char* name;
    ProfileKind kind;
    int64_t index;
    Clock::time_point start;
  };
  cuda::Gpu& gpu_;
  std::vector<Open> open_;
  std::map<std::string, std::pair<double, int>> times_;
};

struct Run {
  std::unique_ptr<cuda::Gpu> gpu = cuda::open_gpu(0);
  ThreadPool pool{available_processors()};
  Arena measure;
  Stream stream{.arena = &measure, .pool = &pool};

  explicit Run(const std::string& dtype) {
    stream.gpu = gpu.get(), stream.memory = gpu.get();
    const bool fp8 = dtype == "fp8", int8 = dtype == "int8";
    stream.precision.activation = fp8 || int8 || dtype == "bf16" ? DType::bf16
                                  : dtype == "f16"               ? DType::f16
                                                                 : DType::f32;
    if (dtype == "tf32") stream.precision.products = Products::tf32;
    if (fp8 || int8) stream.precision.products = fp8 ? Products::e4m3 : Products::int8;
  }

  // Calls body(plan_only) twice: to measure, and then in an arena of the measured size.
  template <class Body>
  void planned(Body&& body) {
    body(true);
    Arena arena(std::max<size_t>(measure.peak(), 1), gpu.get());
    stream.arena = &arena;
    body(false);
  }

  void profile(const std::function<void()>& work) {
    PartTimes parts(*gpu);
    stream.hooks.profiler = &parts;
    work();
    stream.hooks.profiler = nullptr;
    parts.print();
  }

  void time(const char* what, int repeats, const std::function<void()>& work, bool graph) {
    const auto start = std::chrono::steady_clock::now();
    work();
    gpu->synchronize();
    const double first =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::vector<double> eager, replayed;
    for (int i = 0; i < repeats; ++i) eager.push_back(cuda::device_us(*gpu, work) / 1000);
    size_t nodes = 0;
    if (graph) {
      const auto captured = cuda::capture(*gpu, work);
      nodes = captured->nodes();
      captured->launch();
      for (int i = 0; i < repeats; ++i)
        replayed.push_back(cuda::device_us(*gpu, [&] { captured->launch(); }) / 1000);
    }
    fmt::print("{}: first {:.1f} ms, median {:.3f} ms (min {:.3f}){}, peak {:.2f} GiB, arena {:.2f} GiB\n",
               what, first, median(eager), *std::min_element(eager.begin(), eager.end()),
               graph ? fmt::format(", graph of {} nodes {:.3f} ms", nodes, median(replayed)) : "",
               static_cast<double>(gpu->peak_bytes()) / (1 << 30),
               static_cast<double>(measure.peak()) / (1 << 30));
    std::fflush(stdout);
  }
};

double gib(size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// Makes the adapters for "8x64", that is, 8 adapters of rank 64 beside each linear layer of the blocks, all
// with the same random values.
std::unique_ptr<nn::AdapterSet> random_adapters(const nn::LinearRegistry& linears, const std::string& which,
                                                nn::ParamStore& store) {
  const size_t x = which.find('x');
  check(x != std::string::npos, ErrorCode::invalid_argument, "expected COUNTxRANK, got {}", which);
  const int64_t count = std::stol(which.substr(0, x)), rank = std::stol(which.substr(x + 1));
  static std::vector<bf16_t> values;  // bf16, as in most files
  int64_t most = 0;
  for (const auto& entry : linears) most = std::max({most, entry.linear.in(), entry.linear.out()});
  values.resize(static_cast<size_t>(most * rank));
  uint32_t state = 1;
  for (bf16_t& v : values)
    v = to_bf16(static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f * 0.02f - 0.01f);
  std::vector<nn::LowRank> low;
  for (const auto& entry : linears) {
    if (!entry.name().starts_with("blocks.")) continue;
    for (int64_t i = 0; i < count; ++i)
      low.push_back({.layer = entry.name(),
                     .a = Tensor(values.data(), DType::bf16, {rank, entry.linear.in()}),
                     .b = Tensor(values.data(), DType::bf16, {entry.part().rows, rank})});
  }
  return std::make_unique<nn::AdapterSet>(low, linears, "transformer", store);
}

// Measures how long it takes to replace the adapters by others, and to give them other strengths.
void time_swaps(const nn::LinearRegistry& linears, const std::string& which, Run& run) {
  BufferShelf shelf;
  std::vector<double> swaps, strengths;
  size_t bytes = 0;
  const auto milliseconds = [&](const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    run.gpu->synchronize();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  for (int i = 0; i < 4; ++i) {
    std::unique_ptr<nn::AdapterSet> set;
    shelf.rewind();
    nn::ParamStore store({.shelf = &shelf}, run.stream);
    swaps.push_back(milliseconds([&] { set = random_adapters(linears, which, store); }));
    bytes = store.bytes();
    const std::vector<float> scales(set->size(), 0.5f);
    for (int j = 0; j < 5; ++j)
      strengths.push_back(milliseconds([&] { set->set_scales(scales, run.stream); }));
  }
  swaps.erase(swaps.begin());  // the first swap also allocated the memory
  fmt::print("adapters: {:.2f} GiB, swapped in {:.1f} ms, another strength in {:.3f} ms\n", gib(bytes),
             median(swaps), median(strengths));
}

void dit(char** a, int count, bool plan_only) {
  const int64_t t = std::atol(a[2]), h = std::atol(a[3]), w = std::atol(a[4]), rows = std::atol(a[5]);
  Run run(a[1]);
  const std::string mode = count > 11 ? a[11] : "f32";
  if (mode == "tf32") run.stream.precision.products = Products::tf32;
  if (!mode.ends_with("f32")) run.stream.precision.residual = run.stream.precision.activation;
  run.stream.precision.attention_int8 = mode.ends_with("int8");
  if (mode.starts_with("fp8")) run.stream.precision.products = Products::e4m3;
  if (mode.starts_with("i8")) run.stream.precision.products = Products::int8;
  const TransformerFiles files = open_transformer(a[0]);
  const WanConfig& c = files.config;
  std::vector<float> latents, text;
  if (!plan_only)
    latents = read_floats(a[7], c.in_channels * t * h * w), text = read_floats(a[8], rows * c.text_dim);
  const double timestep[] = {std::atof(a[6])};
  const auto body = [&](bool plan) {
    nn::ParamStore store({.plan_only = plan}, run.stream);
    const auto model = load_component(files.source, "transformer", {}, [&](const Scope& scope) {
      return std::make_unique<WanDit>(scope, c, store);
    });
    const Tensor x = store.uploaded(latents.data(), DType::f32, {1, c.in_channels, t, h, w});
    const Tensor y = store.allocate(DType::f32, {1, c.out_channels, t, h, w});
    const Tensor words = store.uploaded(text.data(), DType::f32, {rows, c.text_dim});
    const bool adapted = count > 13 && std::string_view(a[12]) == "adapters", sparse = count > 13 && !adapted;
    std::unique_ptr<nn::AdapterSet> adapters;
    if (adapted) adapters = random_adapters(model->linears(), a[13], store);
    run.stream.adapters = adapters.get();
    const WanGrid grid = model->make_grid(
        t, h, w, store,
        sparse ? compact_places(t / c.patch_t, h / c.patch_h, w / c.patch_w) : std::vector<int32_t>());
    const WanContext context = model->make_context(words, 512, {}, store);
    WanInput in{
        .latents = x, .grid = &grid, .times = model->make_times(timestep, store), .contexts = {&context}};
    if (sparse)
      in.keys = make_keys({.share = std::atof(a[12]), .chooser = parse_key_chooser(a[13])}, c, grid, store);
    const auto work = [&] { model->forward(in, y, run.stream); };
    if (plan) {
      work();
      const size_t arena = run.measure.peak();
      return fmt::print("planned: weights and tables {:.2f} GiB + arena {:.2f} GiB = {:.2f} GiB\n",
                        gib(store.bytes()), gib(arena), gib(store.bytes() + arena));
    }
    run.time("dit", std::atoi(a[10]), work, true);
    if (adapted) time_swaps(model->linears(), a[13], run);
    std::vector<float> out(static_cast<size_t>(y.numel()));
    download(y, out.data(), run.stream);
    write_floats(a[9], out);
    const Precision& as = run.stream.precision;  // the calls that are timed alone are those of bf16
    if (as.activation == DType::bf16 && as.products == Products::as_activations && !as.attention_int8)
      bench::report_forward(c, {grid.tokens(), context.k.dim(1), context.key_bias.defined()}, run.stream,
                            std::atoi(a[10]), work);
  };
  plan_only ? body(true) : run.planned(body);
}

void decode(char** a, int count) {
  const int64_t t = std::atol(a[2]), h = std::atol(a[3]), w = std::atol(a[4]);
  Run run(a[1]);
  const VaeFiles files = open_vae(a[0]);
  const VaeConfig& c = files.config;
  const auto latents = read_floats(a[5], c.z_dim * t * h * w);
  run.planned([&](bool plan) {
    nn::ParamStore store({.plan_only = plan}, run.stream);
    const auto model =
        load_component(files.source, "vae", {"encoder.", "quant_conv."}, [&](const Scope& scope) {
          return std::make_unique<VaeDecoder>(scope, c, VaeDecoderOptions{.normalised = false}, run.stream);
        });
    const Tensor z = store.uploaded(latents.data(), DType::f32, {c.z_dim, t, h, w});
    const int64_t frames = c.pixel_frames(t), s = c.spatial_stride();
    const Tensor out = store.allocate(DType::f32, {frames, h * s, w * s, c.image_channels()});
    const auto work = [&] {
      model->decode(
          z,
          [&](const Tensor& part, int64_t first) {
            ops::copy({.x = part, .y = out.slice(0, first, first + part.dim(0))}, run.stream);
          },
          run.stream, count > 8 ? std::max(1, std::atoi(a[8])) : 1);
    };
    if (plan) return work();
    run.time("decode", std::atoi(a[7]), work, false);
    if (count > 9) run.profile(work);
    std::vector<float> values(static_cast<size_t>(out.numel()));
    download(out, values.data(), run.stream);
    write_floats(a[6], values);
  });
}

void encode(char** a, int count) {
  const int64_t t = std::atol(a[2]), h = std::atol(a[3]), w = std::atol(a[4]);
  Run run(a[1]);
  const VaeFiles files = open_vae(a[0]);
  const VaeConfig& c = files.config;
  const auto video = read_floats(a[5], t * h * w * 3);
  run.planned([&](bool plan) {
    nn::ParamStore store({.plan_only = plan}, run.stream);
    const auto model =
        load_component(files.source, "vae", {"decoder.", "post_quant_conv."}, [&](const Scope& scope) {
          return std::make_unique<VaeEncoder>(scope, c, VaeEncoderOptions{.logvar = false}, run.stream);
        });
    const Tensor x = store.uploaded(video.data(), DType::f32, {t, h, w, 3});
    const Tensor mean = store.allocate(
        DType::f32, {c.z_dim, c.latent_frames(t), h / c.spatial_stride(), w / c.spatial_stride()});
    const auto source = [&](int64_t first, int64_t frames) { return x.slice(0, first, first + frames); };
    const int64_t chunk = count > 8 ? std::max(1, std::atoi(a[8])) : 1;
    const auto work = [&] {
      model->encode({t, h, w}, source, mean, Tensor(), run.stream, nullptr, {}, chunk);
    };
    if (plan) return work();
    run.time("encode", std::atoi(a[7]), work, false);
    if (count > 9) run.profile(work);
    std::vector<float> values(static_cast<size_t>(mean.numel()));
    download(mean, values.data(), run.stream);
    write_floats(a[6], values);
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc >= 10, "usage: see the file's first lines");
    const std::string stage = argv[1];
    if (stage == "dit" || stage == "plan")
      dit(argv + 2, argc - 2, stage == "plan");
    else
      (stage == "decode" ? decode : encode)(argv + 2, argc - 2);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "ours_gpu: {}\n", e.what());
    return 1;
  }
}
