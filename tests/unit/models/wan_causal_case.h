// A golden case of the causal models (tests/golden/causal): its model, the inputs of a rollout, and the
// rollout made by hand.
#pragma once

#include <nlohmann/json.hpp>

#include "golden.h"
#include "models/wan/branches/actions/action_branch.h"
#include "models/wan/branches/actions/script.h"
#include "models/wan/dit.h"
#include "models/wan/infer_config.h"
#include "weights/names/rename.h"

namespace tachy::test {

struct WanCausalCase {
  explicit WanCausalCase(const std::string& name)
      : golden("causal/" + name + ".safetensors"),
        folder(golden_path("causal/" + text("model"))),
        weights(dit_source(open_weights(folder)).source),
        config(WanConfig::from_json(read_json(folder + "/config.json"))),
        blocks(nlohmann::json::parse(text("blocks")).get<std::vector<int64_t>>()),
        timesteps(nlohmann::json::parse(text("timesteps")).get<std::vector<double>>()),
        sigmas(nlohmann::json::parse(text("sigmas")).get<std::vector<double>>()) {
    correct_by_tensors(config, *weights);
    window = {.frames = std::stoll(text("window")), .sinks = std::stoll(text("sinks"))};
  }

  std::string text(const char* key) const { return golden.source->metadata().at(key); }

  std::unique_ptr<WanDit> load(nn::ParamStore& store) const {
    return load_component(weights, "transformer", {},
                          [&](const Scope& scope) { return std::make_unique<WanDit>(scope, config, store); });
  }
  WanContext context(const WanDit& model, nn::ParamStore& store) const {
    const Tensor given = golden["context"];
    if (config.text_dim == 0) return model.make_context({}, 0, given, store);
    return model.make_context(given, std::stoll(text("context_rows")), {}, store);
  }
  WanScript script() const {
    const auto given = [&](const char* name) { return golden.has(name) ? golden[name] : Tensor(); };
    return {given("keyboard"), given("mouse")};
  }

  // A session over the golden inputs, whose tensors are [C, frames, h, w].
  struct Session {
    Session(const WanCausalCase& of, const WanDit& network, nn::ParamStore& memory)
        : c(of), model(network), store(memory), context(of.context(network, memory)) {
      const Tensor noise = c.golden["noise"];
      rows = noise.dim(2) / 2, columns = noise.dim(3) / 2;
      causal = model.allocate_causal(c.window, *std::max_element(c.blocks.begin(), c.blocks.end()), rows,
                                     columns, store);
      times = model.make_times(with_zero(c.timesteps), store);
    }
    static std::vector<double> with_zero(std::vector<double> t) {
      t.push_back(0);
      return t;
    }

    void begin(int64_t frames) {
      grid = model.make_grid(frames, 2 * rows, 2 * columns, store);
      model.begin_block(causal, grid, WanExtras::of(c.script()), store.stream());
    }
    // Predicts at one of the timesteps, or at 0 after the last one. `x` has the values of the block's
    // latents.
    std::vector<float> predict(const std::vector<float>& x, size_t step, bool fill_only = false,
                               bool known = false) {
      const Tensor noise = c.golden["noise"];
      const int64_t frames = causal.frames, z = noise.dim(0), plane = noise.dim(2) * noise.dim(3);
      const int64_t channels = c.config.in_channels;
      std::vector<float> input(static_cast<size_t>(channels * frames * plane));
      std::copy(x.begin(), x.end(), input.begin());
      for (int64_t i = z; i < channels; ++i) {  // the condition for these frames, after the latents
        const Tensor given = c.golden["condition"].select(0, i - z);
        std::copy_n(given.as<float>() + causal.first * plane, frames * plane,
                    input.begin() + i * frames * plane);
      }
      std::vector<float> velocity(static_cast<size_t>(z * frames * plane), NAN);
      const auto at = static_cast<int64_t>(step);
      const auto shaped = [&](std::vector<float>& v, int64_t n) {
        return Tensor(v.data(), DType::f32, {1, n, frames, noise.dim(2), noise.dim(3)});
      };
      WanInput in{.latents = shaped(input, channels),
                  .grid = &grid,
                  .times = {times.embedding.slice(0, at, at + 1), times.projection.slice(0, at, at + 1)},
                  .contexts = {&context},
                  .causal = &causal,
                  .fill_only = fill_only};
      causal.known = known;
      model.forward(in, fill_only ? Tensor() : shaped(velocity, z), store.stream());
      return velocity;
    }

    const WanCausalCase& c;
    const WanDit& model;
    nn::ParamStore& store;
    WanContext context;
    WanCausal causal;
    WanTimes times;
    WanGrid grid;
    int64_t rows = 0, columns = 0;
  };

  // Returns frames [first, first + frames) of [C, T, h, w].
  static std::vector<float> frames_of(const Tensor& t, int64_t first, int64_t frames) {
    const int64_t plane = t.dim(2) * t.dim(3);
    std::vector<float> out;
    for (int64_t c = 0; c < t.dim(0); ++c) {
      const float* from = t.as<float>() + (c * t.dim(1) + first) * plane;
      out.insert(out.end(), from, from + frames * plane);
    }
    return out;
  }

  struct Result {
    double velocities = 0, latents = 0;  // the largest error, relative to the largest value
  };
  // fill_only says whether the pass at timestep 0 does only what it must.
  Result rollout(Session& session, bool fill_only = true) const {
    const Tensor noise = golden["noise"], want_velocities = golden["velocities"], want = golden["latents"];
    double off_v = 0, off_x = 0, most_v = 0, most_x = 0;
    const auto compare = [](const std::vector<float>& y, const std::vector<float>& r, double& off,
                            double& most) {
      for (size_t i = 0; i < r.size(); ++i) {
        off = std::isfinite(y[i]) ? std::max(off, std::abs(static_cast<double>(y[i]) - r[i])) : INFINITY;
        most = std::max(most, std::abs(static_cast<double>(r[i])));
      }
    };
    int64_t first = 0, pass = 0;
    for (const int64_t frames : blocks) {
      session.begin(frames);
      std::vector<float> x = frames_of(noise, first, frames);
      for (size_t i = 0; i < timesteps.size(); ++i) {
        const std::vector<float> v = session.predict(x, i);
        compare(v, frames_of(want_velocities.select(0, pass++), 0, frames), off_v, most_v);
        const bool last = i + 1 == timesteps.size();
        const std::vector<float> fresh =
            last ? x : frames_of(golden["fresh"].select(0, static_cast<int64_t>(i)), first, frames);
        for (size_t j = 0; j < x.size(); ++j) {
          x[j] = static_cast<float>(x[j] - sigmas[i] * v[j]);
          if (!last) x[j] = static_cast<float>((1 - sigmas[i + 1]) * x[j] + sigmas[i + 1] * fresh[j]);
        }
      }
      session.predict(x, timesteps.size(), fill_only);
      compare(x, frames_of(want, first, frames), off_x, most_x);
      first += frames;
    }
    return {off_v / most_v, off_x / most_x};
  }

  GoldenFile golden;
  std::string folder;
  std::shared_ptr<TensorSource> weights;
  WanConfig config;
  std::vector<int64_t> blocks;
  std::vector<double> timesteps, sigmas;
  WanWindow window;
};

}  // namespace tachy::test
