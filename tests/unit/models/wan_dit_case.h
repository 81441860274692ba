// A golden case of the Wan transformer (from tests/golden/wan, or from the folder in its name): its inputs, a
// run of it on the CPU or on a GPU, and its error.
#pragma once

#include <map>

#include "base/env.h"
#include "golden.h"
#include "models/wan/branches/audio/audio.h"
#include "models/wan/branches/audio/audio_config.h"
#include "models/wan/dit.h"
#include "nn/adapter_set.h"
#include "tensor/transfer.h"
#include "weights/names/rename.h"

namespace tachy::test {

struct WanDitCase {
  explicit WanDitCase(const std::string& given)
      : name(in_folder("wan", given)),
        golden(name + ".safetensors"),
        weights(dit_source(open_weights(golden_path(name))).source),
        config(WanConfig::from_json(read_json(golden_path(name + "/config.json")))) {
    for (const std::string& rows : split(golden.source->metadata().at("text_rows"), ','))
      text_rows.push_back(std::stoll(rows));
    if (!golden.has("audio_embeds")) return;
    weights =
        joined(*weights, *infinitetalk_source(open_weights(golden_path(name + "_infinitetalk.safetensors"))));
    add_audio_branch(config, *weights);
  }

  std::unique_ptr<WanDit> load(nn::ParamStore& store) const {
    return load_component(weights, "transformer", {},
                          [&](const Scope& scope) { return std::make_unique<WanDit>(scope, config, store); });
  }

  // Returns the sample, [B, C_out, T, H, W]. `rows_given` is 0 for the real rows of text, or a larger number
  // for additional rows of zeros.
  template <class Planned>
  std::vector<float> run(Planned& planned, int64_t rows_given = 0) {
    std::vector<float> y;
    planned([&](Stream& stream, nn::ParamStore& store) {
      const auto model = load(store);
      const nn::AdapterSet set(adapters, model->linears(), "transformer", store);
      if (!adapters.empty()) stream.adapters = &set;
      y = pass(*model, store, rows_given);
      stream.adapters = nullptr;
    });
    return y;
  }

  // Makes one forward pass on the store's stream; everything that it needs is made in the store.
  std::vector<float> pass(const WanDit& model, nn::ParamStore& store, int64_t rows_given = 0) const {
    const Tensor x = golden["hidden_states"], text = golden["encoder_hidden_states"],
                 time = golden["timestep"];
    const int64_t batch = x.dim(0), tokens = x.dim(2) * (x.dim(3) / 2) * (x.dim(4) / 2);
    std::vector<float> y(static_cast<size_t>(batch * config.out_channels * x.dim(2) * x.dim(3) * x.dim(4)),
                         NAN);
    const Tensor out(y.data(), DType::f32, {batch, config.out_channels, x.dim(2), x.dim(3), x.dim(4)});

    std::vector<double> timesteps;
    std::vector<int32_t> rows;
    std::map<float, int32_t> index;
    for (int64_t i = 0; i < batch * tokens; ++i) {
      const float t = time.as<float>()[time.rank == 2 ? i : i / tokens];
      const auto [it, added] = index.try_emplace(t, static_cast<int32_t>(timesteps.size()));
      if (added) timesteps.push_back(t);
      rows.push_back(it->second);
    }
    Stream& stream = store.stream();
    const auto placed = [&](const void* data, DType dtype, std::initializer_list<int64_t> dims) {
      return stream.gpu ? store.uploaded(data, dtype, dims) : Tensor(const_cast<void*>(data), dtype, dims);
    };
    std::vector<int32_t> places;
    if (sparse)
      places = places_for(*sparse, config, x.dim(2) / config.patch_t, x.dim(3) / config.patch_h,
                          x.dim(4) / config.patch_w);
    const WanGrid grid = model.make_grid(x.dim(2), x.dim(3), x.dim(4), store, std::move(places));
    for (std::vector<int32_t> given = rows; const int32_t& row : given) {
      const int64_t i = &row - given.data(), item = i / tokens * tokens;
      rows[static_cast<size_t>(item + grid.place_of(i - item))] = row;
    }
    std::vector<std::vector<float>> padded;
    std::vector<WanContext> contexts;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t real = text_rows[static_cast<size_t>(b)], given = std::max(real, rows_given);
      const float* source = text.as<float>() + b * text.dim(1) * text.dim(2);
      padded.emplace_back(source, source + real * text.dim(2))
          .resize(static_cast<size_t>(given * text.dim(2)));
      Tensor image;
      if (config.image_branch()) {
        const Tensor all = golden["encoder_hidden_states_image"];
        const int64_t count = all.numel() / all.dim(2) / batch;
        image = Tensor(all.as<float>() + b * count * all.dim(2), DType::f32, {count, all.dim(2)});
      }
      contexts.push_back(model.make_context(placed(padded.back().data(), DType::f32, {given, text.dim(2)}),
                                            512, image, store));
    }
    const Tensor made = stream.gpu ? store.allocate(DType::f32, out.shape()) : out;
    WanInput in{.latents = placed(x.data, DType::f32, {batch, x.dim(1), x.dim(2), x.dim(3), x.dim(4)}),
                .grid = &grid,
                .times = model.make_times(timesteps, store),
                .row = placed(rows.data(), DType::i32, {batch * tokens})};
    for (const WanContext& context : contexts) in.contexts.push_back(&context);
    std::vector<WanAudio> audio;
    for (int64_t b = 0; b < (config.audio_branch() ? batch : 0); ++b) {
      audio.push_back(allocate_audio(model, x.dim(2), store));
      // For the second clip the speech is left undefined where the golden case has zeros.
      const Tensor states = b == 0 ? golden["audio_embeds"].select(0, 0) : Tensor();
      make_audio(model, {states, *golden["audio_start"].as<int64_t>()}, audio.back(), stream);
    }
    if (!audio.empty()) in.given.put(WanSpeech{audio});
    if (sparse) in.keys = make_keys(*sparse, config, grid, store);
    if (give) give(model, in, store);
    model.forward(in, made, stream);
    if (stream.gpu && !stream.measuring()) download(made, y.data(), stream);
    return y;
  }

  double error(std::vector<float>& y) const {
    const Tensor want = golden[sample];
    return error_of(Tensor(y.data(), DType::f32, want.shape()), want);
  }

  std::string name;
  GoldenFile golden;
  std::string sample = "sample";  // name of the expected tensor
  std::shared_ptr<TensorSource> weights;
  WanConfig config;
  std::optional<WanSparse> sparse;  // block-sparse self-attention
  std::vector<int64_t> text_rows;
  std::vector<nn::LowRank> adapters;  // for the transformer in run()
  // Adds the inputs of a branch's own test to WanInput::given.
  std::function<void(const WanDit& model, WanInput& in, nn::ParamStore& store)> give = {};
};

}  // namespace tachy::test
