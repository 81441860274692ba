// The stages that run a model, on the device that was asked for.
#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "models/wan/branches/audio/audio.h"
#include "models/wan/branches/vace/vace_branch.h"
#include "report/stage_result.h"
#include "report/stage_runners.h"
#include "report/stage_times.h"
#include "session/parts.h"
#include "session/single_run.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// Returns the number of rows before diffusers' padding, which is all zero and collapses to one key.
int64_t real_rows(const Tensor& text) {
  const int64_t width = text.dim(1);
  int64_t rows = text.dim(0);
  const float* data = text.as<float>();
  while (rows > 0 &&
         std::all_of(data + (rows - 1) * width, data + rows * width, [](float v) { return v == 0; }))
    --rows;
  // A single padding row has nothing to collapse with; the context needs a row even for an all-zero text.
  return std::max<int64_t>(text.dim(0) - rows > 1 ? rows : text.dim(0), 1);
}

// Returns the speech for each batch item; nothing for a model without the audio branch.
std::vector<WanAudio> hear(const WanDit& model, const ClipAudio& speech, int64_t latent_frames,
                           nn::ParamStore& store) {
  std::vector<WanAudio> out;
  if (!speech.states.defined()) return out;
  WanRegions regions;
  if (!speech.regions.empty()) regions = make_regions(model, speech.regions, store);
  for (int64_t b = 0; b < speech.states.dim(0); ++b) {
    out.push_back(allocate_audio(model, latent_frames, store, regions));
    std::vector<AudioWindow> speakers;
    for (int64_t s = 0; s < speech.states.dim(1); ++s)
      speakers.push_back({speech.states.select(0, b).select(0, s), speech.start});
    make_audio(model, speakers, out.back(), store.stream());
  }
  return out;
}

// Reads diffusers' control_hidden_states and control_hidden_states_scale; without them no control is followed.
struct Control {
  Tensor latents;
  std::vector<float> scales;
};
Control control_of(const WanConfig& c, StageIo& io) {
  Control out;
  if (!io.has("control_hidden_states")) return out;
  require(c.vace.present(),
          "stage transformer: control_hidden_states given, but the model has no control blocks");
  out.latents = io.input("control_hidden_states", 5, 5);
  if (!io.has("control_hidden_states_scale")) return out;
  const Tensor scales = io.input("control_hidden_states_scale", 1, 1);
  expect_dtype("stage transformer", "control_hidden_states_scale", scales, DType::f32);
  out.scales.assign(scales.as<float>(), scales.as<float>() + scales.numel());
  return out;
}

void expect_whole_clips(const TransformerFiles& files) {
  check(files.config.text_dim > 0 && !files.config.actions.present(), ErrorCode::unsupported,
        "stage transformer: {} makes a video block by block, which the stage rollout does",
        files.source->files_text());
}

}  // namespace

void run_text_encoder(const StageRequest& request, StageIo& io) {
  const auto files = part_of<TextEncoderFiles>(request, open_text_encoder, [](const ModelBundle& m) {
    return TextEncoderFiles{m.text_encoder, m.text};
  });
  const Tensor ids = io.input("input_ids", 2, 2);
  expect_dtype("stage text-encoder", "input_ids", ids, DType::i64);
  const Tensor mask = io.has("attention_mask") ? io.input("attention_mask", 2, 2) : Tensor();
  if (mask.defined()) {
    expect_shape("stage text-encoder", "attention_mask", mask, {ids.dim(0), ids.dim(1)});
    expect_dtype("stage text-encoder", "attention_mask", mask, DType::i64);
  }
  const Tensor out =
      io.output("last_hidden_state", DType::f32, {ids.dim(0), ids.dim(1), files.config.d_model});
  run_planned(stage_run(request), [&](Stream& stream) {
    nn::ParamStore store({.pack_weights = request.pack_weights}, stream);
    const auto model = load_component(
        files.source, "text encoder", {"encoder.embed_tokens.", "spiece_model"},
        [&](const Scope& scope) { return std::make_unique<Umt5Encoder>(scope, files.config, store); });
    const StageResult result(out, store);
    model->forward(ids, mask, result.tensor(), stream);
    result.fetch(stream);
  });
}

void run_transformer(const StageRequest& request, StageIo& io) {
  auto files = part_of<TransformerFiles>(request, open_transformer, [&](const ModelBundle& m) {
    return TransformerFiles{m.transformer_of(request.expert), m.dit, m.original};
  });
  if (!request.infinitetalk.empty()) add_infinitetalk(files, request.infinitetalk);
  if (request.sinusoid) files.config.sinusoid = parse_sinusoid(*request.sinusoid);
  const WanConfig& c = files.config;
  expect_whole_clips(files);
  const Tensor x = io.input("hidden_states", 5, 5);
  const int64_t batch = x.dim(0);
  const Tensor time = io.input("timestep", 1, 2);
  const Tensor text = io.input("encoder_hidden_states", 3, 3);
  expect_shape("stage transformer", "encoder_hidden_states", text, {batch, -1, c.text_dim});
  Tensor image;
  if (io.has("encoder_hidden_states_image")) {
    require(c.image_branch(),
            "stage transformer: encoder_hidden_states_image given, but the model has no image branch");
    image = io.input("encoder_hidden_states_image", 3, 3);
    expect_shape("stage transformer", "encoder_hidden_states_image", image, {-1, -1, c.image_dim});
    require(image.dim(0) % batch == 0, "stage transformer: {} encoder_hidden_states_image for a batch of {}",
            image.dim(0), batch);
    image = image.view({batch, -1, c.image_dim});  // first-last-frame models have both images as batch items
  }
  expect_shape("stage transformer", "hidden_states", x, {batch, c.in_channels, -1, -1, -1});
  const int64_t tokens = x.dim(2) / c.patch_t * (x.dim(3) / c.patch_h) * (x.dim(4) / c.patch_w);
  if (time.rank == 2)
    expect_shape("stage transformer", "timestep", time, {batch, tokens});
  else
    expect_shape("stage transformer", "timestep", time, {batch});

  const TimeRows times = time_rows(time, batch, tokens, io);
  const ClipAudio speech = clip_audio(x, c, io);
  const Control control = control_of(c, io);
  const Tensor out = io.output("sample", DType::f32, {batch, c.out_channels, x.dim(2), x.dim(3), x.dim(4)});
  run_planned(stage_run(request), [&](Stream& stream) {
    nn::ParamStore store({.pack_weights = request.pack_weights}, stream);
    const auto model = load_component(files.source, "transformer", {}, [&](const Scope& scope) {
      return std::make_unique<WanDit>(scope, c, store);
    });
    // A model that was trained with sparse attention attends as it was trained, where that is possible.
    std::optional<WanSparse> sparse;
    if (c.trained != TrainedSparse::none && !store.on_gpu())
      sparse = WanSparse{.share = c.trained_share(), .chooser = KeyChooser::trained};
    std::vector<int32_t> places;
    if (sparse)
      places = places_for(*sparse, c, x.dim(2) / c.patch_t, x.dim(3) / c.patch_h, x.dim(4) / c.patch_w);
    const WanGrid grid = model->make_grid(x.dim(2), x.dim(3), x.dim(4), store, std::move(places));
    std::vector<int32_t> rows_placed = placed(times.row, grid);
    std::vector<WanContext> contexts;
    for (int64_t b = 0; b < batch; ++b) {
      const Tensor rows = text.select(0, b);
      const Tensor given = where_it_computes(rows.slice(0, 0, real_rows(rows)), store);
      contexts.push_back(
          model->make_context(given, rows.dim(0), image.defined() ? image.select(0, b) : Tensor(), store));
    }
    WanInput in{.latents = where_it_computes(x, store),
                .grid = &grid,
                .times = model->make_times(times.timesteps, store),
                .row = where_it_computes(Tensor(rows_placed.data(), DType::i32, times.row.shape()), store)};
    if (sparse) in.keys = make_keys(*sparse, c, grid, store);
    for (const WanContext& context : contexts) in.contexts.push_back(&context);
    if (std::vector<WanAudio> audio = hear(*model, speech, x.dim(2), store); !audio.empty())
      in.given.put(WanSpeech{std::move(audio)});
    if (control.latents.defined())
      in.given.put(make_control(*model, where_it_computes(control.latents, store), control.scales, store));
    else if (c.vace.present())
      in.given.put(WanControl{});
    const StageResult result(out, store);
    model->forward(in, result.tensor(), stream);
    result.fetch(stream);
  });
}

void run_image_encoder(const StageRequest& request, StageIo& io) {
  const auto files = part_of<ImageEncoderFiles>(request, open_image_encoder, [](const ModelBundle& m) {
    return ImageEncoderFiles{m.image_encoder, m.clip, m.clip_preparation};
  });
  const ClipVisionConfig& c = files.config;
  const Tensor pixels = io.input("pixel_values", 4, 4);
  expect_shape("stage image-encoder", "pixel_values", pixels, {-1, 3, c.image_size, c.image_size});
  const Tensor out = io.output("image_embeds", DType::f32, {pixels.dim(0), c.tokens(), c.hidden_size});
  run_planned(stage_run(request), [&](Stream& stream) {
    nn::ParamStore store({.pack_weights = request.pack_weights}, stream);
    const auto model =
        load_component(files.source, "image encoder", ClipVision::ignorable(c),
                       [&](const Scope& scope) { return std::make_unique<ClipVision>(scope, c, store); });
    const Tensor given = where_it_computes(pixels, store);
    const StageResult result(out, store);
    model->forward(given, result.tensor(), stream);
    result.fetch(stream);
  });
}

}  // namespace tachy
