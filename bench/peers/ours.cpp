// Our side of bench/peers: reads one job per line on stdin and answers with one JSON line; the
// jobs are those of reference.py. Models stay loaded between jobs, as in reference.py; the times
// cover only the work itself.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "api/tachyscope.h"
#include "session/parts.h"
#include "session/stage_clock.h"
#include "tensor/random.h"

namespace {

using namespace tachy;
using nlohmann::json;

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

Compute compute_of(const json& job) {
  return job.value("dtype", "f32") == "bf16" ? Compute::bf16 : Compute::f32;
}

class Server {
 public:
  explicit Server(int threads) : threads_(threads), pool_(threads) {}

  json run(const json& job) {
    const std::string work = job.at("work");
    if (work == "generate") return generate(job);
    if (work == "decode") return decode(job);
    if (work == "step") return step(job);
    if (work == "unload") {
      vae_ = {}, dit_ = {}, engine_.reset(), model_key_.clear(), dit_key_.clear();
      return json::object();
    }
    fail(ErrorCode::invalid_argument, "work: expected generate, decode, step or unload, got '{}'", work);
  }

 private:
  json generate(const json& job) {
    const std::string folder = job.at("model");
    const EngineOptions options{.threads = threads_, .keep_loaded = true};
    if (!engine_) engine_ = std::make_unique<Engine>(folder, options);
    VideoRequest request;
    request.prompt = job.at("prompt"), request.steps = job.at("steps").get<int>();
    request.dtype = job.value("dtype", "f32");
    std::vector<double> stamps;
    VideoCallbacks callbacks;
    callbacks.progress = [&](const Progress& p) {
      if (p.stage == "denoise") stamps.push_back(monotonic_seconds());
    };
    int64_t frames = 0;
    callbacks.frame = [&](const RgbImage&, int64_t) { ++frames; };
    const double start = monotonic_seconds();
    engine_->generate(request, callbacks);
    const double end = monotonic_seconds();
    // The first stamp is the stage's start; as in reference.py, the first step is left out.
    std::vector<double> steps;
    for (size_t i = 2; i < stamps.size(); ++i) steps.push_back(stamps[i] - stamps[i - 1]);
    return {
        {"total", end - start}, {"step", median(steps)}, {"decode", end - stamps.back()}, {"frames", frames}};
  }

  // Runs `body` in a measure run, then for real with an arena of the size that it found; returns the seconds
  // of the second run.
  template <class Body>
  double timed(Compute compute, Body&& body) {
    Arena measure;
    Stream stream{.arena = &measure, .pool = &pool_, .precision = {.compute = compute}};
    body(stream);
    if (arena_.capacity() < measure.peak()) arena_ = Arena(measure.peak());
    stream.arena = &arena_;
    const double start = monotonic_seconds();
    body(stream);
    return monotonic_seconds() - start;
  }

  Tensor noise(std::vector<float>& storage, std::initializer_list<int64_t> dims) {
    const Tensor shape(nullptr, DType::f32, dims, Device::null);
    storage.resize(static_cast<size_t>(shape.numel()));
    TorchCpuGenerator(0).normal(storage);
    return Tensor(storage.data(), DType::f32, dims);
  }

  template <class Load>
  void load(const json& job, std::string& key, Load&& body) {
    const std::string wanted = job.at("model").get<std::string>() + job.value("dtype", "f32");
    if (key == wanted) return;
    const ModelBundle model = ModelBundle::open(job.at("model").get<std::string>());
    Arena measure;
    Stream stream{.arena = &measure, .pool = &pool_, .precision = {.compute = compute_of(job)}};
    body(model, stream);
    Arena arena(std::max<size_t>(measure.peak(), 1));
    stream.arena = &arena;
    body(model, stream);
    key = wanted;
  }

  json decode(const json& job) {
    load(job, model_key_, [&](const ModelBundle& model, Stream& s) {
      vae_ = {};
      vae_ = load_vae(model, s);
    });
    const int64_t size = job.at("size").get<int64_t>() / 8,
                  frames = (job.at("frames").get<int64_t>() - 1) / 4 + 1;
    std::vector<float> storage;
    const Tensor z = noise(storage, {vae_.model->config().z_dim, frames, size, size});
    const VaeDecoder::Sink sink = [](const Tensor&, int64_t) {};
    return {{"seconds", timed(compute_of(job), [&](Stream& s) { vae_.model->decode(z, sink, s); })}};
  }

  json step(const json& job) {
    load(job, dit_key_, [&](const ModelBundle& model, Stream& s) {
      dit_ = {};
      dit_ = load_dit(model, 0, {}, s);
    });
    const WanDit& dit = *dit_.model;
    const int64_t size = job.at("size").get<int64_t>() / 8,
                  frames = (job.at("frames").get<int64_t>() - 1) / 4 + 1;
    std::vector<float> latents, text, out;
    const Tensor x = noise(latents, {1, dit.config().in_channels, frames, size, size});
    const Tensor rows = noise(text, {64, dit.config().text_dim}),
                 velocity = noise(out, {1, dit.config().out_channels, frames, size, size});
    // Values that do not change from step to step are computed outside the timing: our denoising loop does so
    // once per generation.
    Arena measure;
    Stream stream{.arena = &measure, .pool = &pool_, .precision = {.compute = compute_of(job)}};
    const double timestep[] = {937.0};
    const auto prepare = [&](nn::ParamStore& store) {
      return std::tuple(dit.make_context(rows, 512, {}, store), dit.make_grid(frames, size, size, store),
                        dit.make_times(timestep, store));
    };
    {
      nn::ParamStore planned({.plan_only = true}, stream);
      prepare(planned);
    }
    Arena arena(std::max<size_t>(measure.peak(), 1));
    stream.arena = &arena;
    nn::ParamStore store({}, stream);
    const auto [context, grid, times] = prepare(store);
    WanInput input{.latents = x, .grid = &grid, .times = times, .row = {}, .contexts = {&context}};
    return {{"seconds", timed(compute_of(job), [&](Stream& s) { dit.forward(input, velocity, s); })}};
  }

  int threads_;
  ThreadPool pool_;
  Arena arena_{1};
  std::unique_ptr<Engine> engine_;
  LoadedVae vae_;
  LoadedDit dit_;
  std::string model_key_, dit_key_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("our side of bench/peers");
  int threads = 2;
  app.add_option("--threads", threads);
  CLI11_PARSE(app, argc, argv);
  Server server(threads);
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << server.run(json::parse(line)).dump() << std::endl;
    } catch (const std::exception& error) {
      std::cout << json{{"error", error.what()}}.dump() << std::endl;
    }
  }
}
