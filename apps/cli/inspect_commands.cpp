// `tachyscope info` and `tachyscope stage`.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/tachyscope.h"
#include "api/world.h"
#include "base/env.h"
#include "base/field.h"
#include "base/json_text.h"
#include "commands.h"
#include "field_options.h"
#include "gauge_options.h"
#include "generate_options.h"
#include "jobs/claimed_output.h"
#include "report/info.h"
#include "report/stage.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

struct InfoOptions {
  std::string model, device;
  EngineOptions engine;
  std::optional<int> width, height, frames;
  bool json = false;
};

json options_json(const std::vector<std::pair<std::string, std::string>>& options) {
  json out = json::object();
  for (const auto& [key, value] : options) out[key] = value;
  return out;
}

// A model that takes no requests has a world's defaults, or none that this program knows.
ModelInfo described(const std::filesystem::path& model, const EngineOptions& engine) {
  ModelInfo info = describe_model(model, part_paths(engine));
  if (info.missing.empty() && info.defaults.empty()) try {
      info.defaults = world_defaults(model, engine);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::unsupported) throw;
    }
  return info;
}

int run_info(const InfoOptions& o) {
  const std::filesystem::path model = o.model.empty() ? shipped_model() : std::filesystem::path(o.model);
  const ModelInfo info = naming("`model`", [&] { return described(model, o.engine); });
  std::optional<VideoPlan> plan;
  VideoRequest request;
  if (info.missing.empty()) try {
      EngineOptions options = o.engine;
      options.device = choose_device(o.device);
      Engine engine(model, options);
      request = engine.example_request();
      if (o.width) request.width = o.width;
      if (o.height) request.height = o.height;
      if (o.frames) request.frames = o.frames;
      plan = engine.plan(request);
    } catch (const Error& e) {
      // Models that generate does not accept are described all the same.
      if (e.code() != ErrorCode::unsupported || e.message().starts_with("`device`")) throw;
    }
  if (o.json) {
    json components = json::array();
    for (const ComponentInfo& c : info.components)
      components.push_back({{"name", c.name},
                            {"file", c.file},
                            {"container", c.container},
                            {"parameters", c.parameters},
                            {"bytes", c.bytes},
                            {"tensors", c.tensors},
                            {"dtypes", c.dtypes},
                            {"options", options_json(c.options)}});
    json out = {{"path", info.path},       {"kind", info.kind},
                {"layout", info.layout},   {"components", components},
                {"missing", info.missing}, {"defaults", options_json(info.defaults)}};
    if (plan) out["peak_bytes"] = plan->peak_bytes, out["seconds"] = plan->seconds;
    fmt::print("{}\n", json_text(out, 2));
    return 0;
  }
  fmt::print("{}: {} model, {} layout\n", info.path, info.kind, info.layout);
  for (const ComponentInfo& c : info.components) {
    fmt::print("\n{}: {:.1f} M parameters, {}, {}\n", c.name, static_cast<double>(c.parameters) / 1e6,
               human_bytes(c.bytes), fmt::join(c.dtypes, ", "));
    fmt::print("  {} ({})\n", c.file, c.container);
    for (const auto& [key, value] : c.options) fmt::print("  {:<16}{}\n", key, value);
  }
  if (!info.missing.empty()) fmt::print("\nmissing\n");
  for (const std::string& text : info.missing) fmt::print("  {}\n", spelled(text));
  if (!info.defaults.empty()) fmt::print("\ndefaults\n");
  for (const auto& [key, value] : info.defaults) fmt::print("  {:<16}{}\n", key, value);
  if (plan)
    fmt::print("\nat {}x{}, {}: peak {} {}, about {} on this machine\n", *request.width, *request.height,
               count_of(*request.frames, "frame"), human_bytes(plan->peak_bytes),
               plan->budget_bytes > 0 ? "of the GPU's memory" : "beside the mapped files",
               human_seconds(plan->seconds));
  return 0;
}

// Reads a shape such as "1,16,3,10,14".
std::vector<int64_t> parse_shape(const std::string& text) {
  std::vector<int64_t> shape;
  for (const std::string& part : split(text, ',')) {
    try {
      size_t used = 0;
      shape.push_back(std::stoll(part, &used));
      require(used == part.size(), "");
    } catch (const std::exception&) {
      fail(ErrorCode::invalid_argument, "--shape: expected whole numbers separated by commas, got '{}'",
           text);
    }
  }
  return shape;
}

}  // namespace

Command add_info(CommandLine& line) {
  CommandOptions sub =
      line.add_command("info", "show what a model's folder or file holds, and the memory it needs at a size");
  auto o = std::make_shared<InfoOptions>();
  sub.add_option("model,-m,--model", o->model,
                 "model's folder, or the file of one part (default: the model that ships with Tachyscope)");
  register_model_parts(sub, o->engine, kPartsGroup);
  sub.add_option("-W,--width", o->width, "width in pixels");
  sub.add_option("-H,--height", o->height, "height in pixels");
  sub.add_option("-f,--frames,--num-frames", o->frames,
                 "number of frames, a multiple of 4 plus 1, such as 81");
  sub.add_option("--device", o->device, kDeviceHelp);
  sub.add_flag("--json", o->json, "print JSON");
  return [o] { return run_info(*o); };
}

Command add_stage(CommandLine& line) {
  std::string names;
  for (const auto& name : stage_names()) names += (names.empty() ? "" : ", ") + name;
  CommandOptions sub =
      line.add_command("stage", "run one stage on given tensors, to compare it with other implementations");
  auto o = std::make_shared<StageRequest>();
  o->device.clear();
  auto shape = std::make_shared<std::string>();
  auto weights = std::make_shared<std::string>("packed");
  sub.add_option("name", o->name, names)->required();
  sub.add_option("-m,--model", o->model,
                 "component's folder (config.json and safetensors), a file of it, or a whole model");
  sub.add_option("--in", o->input, "file of the input tensors (.safetensors)");
  sub.add_option("--out", o->out, "file to write the output tensors to (.safetensors)")->required();
  sub.add_option("-p,--prompt", o->prompt, "tokenize: the text");
  sub.add_option("--max-sequence-length", o->max_text_tokens,
                 "tokenize: length that the tokens are padded to, 1 to 4096")
      ->check(between(1, 4096));
  sub.add_option("--sampler", o->sampler,
                 "sampler: unipc, euler, dpm++, dpm++_sde, lcm, or the list of a distilled model");
  sub.add_option("--grid", o->grid, "sampler: diffusers, original, multitalk, wrapper or comfyui");
  sub.add_option("--steps", o->steps, "sampler: number of steps, 1 to 1000")->check(between(1, 1000));
  sub.add_option("--shift", o->shift, "sampler: shift of the flow schedule");
  sub.add_option("-s,--seed", o->seed, "noise: the seed")->check(check_seed);
  sub.add_option(
      "--shape", *shape,
      "noise: a shape such as 1,16,3,10,14; fit-image: HEIGHT,WIDTH; audio-encoder: number of frames");
  sub.add_option("--image", o->image, "fit-image, image-processor: the picture (PNG, JPEG, WebP, GIF)");
  sub.add_option("--image-fit", o->image_fit, "fit-image: stretch or crop");
  sub.add_option("--clip-preparation,--clip_preparation", o->clip_preparation,
                 "image-processor: processor or original");
  sub.add_option("--rng", o->rng, "noise: which PyTorch generator the seed is for: cpu or cuda");
  sub.add_option("--rng-multiprocessors", o->rng_multiprocessors,
                 "noise: number of multiprocessors of the GPU that --rng cuda imitates");
  sub.add_option("--sinusoid", o->sinusoid,
                 "transformer: whose embedding of time to use: diffusers or original");
  sub.add_option("--infinitetalk", o->infinitetalk,
                 "transformer: InfiniteTalk's file, which is added to the model");
  sub.add_option("--dtype,--precision", o->dtype,
                 "precision of matrix products: f32 or bf16; on a GPU of the activations: f32, f16 or bf16");
  sub.add_option("--device", o->device, kDeviceHelp);
  sub.add_option("--weights", *weights, "how weights are held in memory: packed or mapped")
      ->check(one_of({"packed", "mapped"}));
  sub.add_option(
      "--level", o->level,
      "how much accuracy to trade for speed: none (definitions), safe (default), aggressive or extreme");
  sub.add_option("-t,--threads", o->threads, "number of threads")->check(between(0, 1024));
  sub.footer(
      "Tensors (names as in diffusers):\n"
      "  tokenize       --prompt TEXT        -> input_ids, attention_mask [1, 512]\n"
      "  text-encoder   input_ids, attention_mask [B, L]            -> last_hidden_state [B, L, d]\n"
      "  transformer    hidden_states [B, C, T, H, W], timestep [B] or [B, tokens],\n"
      "                 encoder_hidden_states [B, n, d], encoder_hidden_states_image [B, m, d] -> sample;\n"
      "                 with InfiniteTalk audio_embeds [B(, 2), n, layers, d], audio_start, speaker_masks\n"
      "  vae-encode     video [B, 3, T, H, W] in [-1, 1]            -> mean, logvar\n"
      "  vae-decode     latents [B, z, T, h, w], un-normalised      -> decoded [B, 3, T, H, W]\n"
      "  rollout        noise [z, T, h, w], fresh [steps - 1, z, T, h, w], blocks [n], window [3],\n"
      "                 timesteps, sigmas; optional: given, condition, keyboard, mouse, and text or image\n"
      "                 as above without B\n"
      "                                                            -> latents [z, T, h, w], velocities\n"
      "  sampler        --sampler --grid --shift --steps            -> sigmas, timesteps\n"
      "  noise          --seed --shape --rng                        -> noise\n"
      "  fit-image      --image --image-fit --shape                 -> image [H, W, 3]\n"
      "  image-processor  --image --clip-preparation --model        -> pixel_values [1, 3, S, S]\n"
      "  image-encoder  pixel_values [B, 3, S, S]                   -> image_embeds [B, tokens, d]\n"
      "  audio-encoder  input_values [1, n] of 16 kHz, --shape      -> hidden_states [frames, layers, d]");
  return [o, shape, weights] {
    o->shape = parse_shape(*shape);
    o->pack_weights = *weights == "packed";
    o->cancel = &g_cancel;
    const jobs::ClaimedOutput claimed = naming("--out", [&] { return jobs::ClaimedOutput(o->out); });
    run_stage(*o);
    return 0;
  };
}

}  // namespace tachy::cli
