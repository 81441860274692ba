#include "inspect/model_checks.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "catalog/model_bundle.h"
#include "inspect/rollout_checks.h"
#include "inspect/say.h"
#include "inspect/temporary_folder.h"
#include "report/stage.h"
#include "request/gpu_mode.h"
#include "request/level.h"
#include "tensor/random.h"
#include "weights/safetensors.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using Values = TensorFile::Values;
using Named = std::map<std::string, Values>;

// Sizes of the prompt, of latents, and of sound at 16 kHz.
constexpr int64_t kTokens = 8, kFrames = 2, kSide = 4, kSamples = 6400;
constexpr double kSigmas[] = {1, 0.5, 0};  // two steps of Euler

Values random_values(std::vector<int64_t> dims, uint64_t seed) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  std::vector<float> values(static_cast<size_t>(count));
  TorchCpuGenerator(seed).normal(values);
  return {std::move(dims), {values.begin(), values.end()}};
}

// One way of computing a model's stages: the level to check, the definitions, or the definitions with
// products in bf16.
class Way {
 public:
  Way(const ModelBundle& model, const ValidateOptions& options, const fs::path& folder, std::string level,
      std::string dtype)
      : model_(model), folder_(folder) {
    const bool definitions = level == "none";
    request_ = {.opened = &model_, .dtype = std::move(dtype), .device = definitions ? "cpu" : options.device};
    request_.level = std::move(level), request_.threads = options.threads, request_.cancel = options.cancel;
    request_.pack_weights = !definitions;
  }

  Values run(const char* stage, const Named& inputs, const char* output, int expert = 0) {
    std::vector<std::vector<float>> floats;
    std::vector<std::vector<int64_t>> whole;
    std::vector<NamedTensor> tensors;
    for (const auto& [name, v] : inputs) {
      if (name == "input_ids" || name == "audio_start") {
        auto& own = whole.emplace_back(v.data.begin(), v.data.end());
        tensors.push_back({name, Tensor(own.data(), DType::i64, std::span<const int64_t>(v.dims))});
      } else {
        auto& own = floats.emplace_back(v.data.begin(), v.data.end());
        tensors.push_back({name, Tensor(own.data(), DType::f32, std::span<const int64_t>(v.dims))});
      }
    }
    request_.name = stage, request_.expert = expert;
    request_.input = folder_ / "in.safetensors", request_.out = folder_ / "out.safetensors";
    write_safetensors(request_.input, std::move(tensors));
    run_stage(request_);
    Values made = TensorFile(request_.out).read(output);
    if (fault_) fault_(stage, made.data);
    return made;
  }

  Values latents;  // latents of the current clip
  void spoil(decltype(ValidateOptions::fault) fault) { fault_ = std::move(fault); }

 private:
  const ModelBundle& model_;
  decltype(ValidateOptions::fault) fault_;
  fs::path folder_;
  StageRequest request_;
};

class ModelChecks {
 public:
  ModelChecks(const ModelBundle& model, const std::string& name, const ValidateOptions& options,
              std::vector<Check>& checks)
      : model_(model), name_(name), options_(options), checks_(checks), low_(precision_at(options).bf16) {
    const std::string dtype =
        options.device != "cpu" && !options.dtypes.empty() ? options.dtypes.front() : "";
    ways_.emplace_back(model, options, folder_.path(), options.level, dtype);
    ways_.back().spoil(options.fault);
    ways_.emplace_back(model, options, folder_.path(), "none", "f32");
    if (low_ && options.device == "cpu") ways_.emplace_back(model, options, folder_.path(), "none", "bf16");
  }

  void run(bool blocks) {
    Named clip;
    if (model_.text_encoder) text(clip);
    if (model_.image_encoder)
      stage("image-encoder",
            {{"pixel_values", random_values({1, 3, model_.clip.image_size, model_.clip.image_size}, 2)}},
            "image_embeds");
    if (model_.audio_encoder)
      stage("audio-encoder", {{"input_values", random_values({1, kSamples}, 3)}}, "hidden_states");
    const VaeConfig& vae = model_.vae_config;
    const int64_t side = kSide * vae.spatial_stride();
    if (blocks || model_.family->image_input != ImageInput::none)
      stage("vae-encode",
            {{"video", random_values({1, vae.image_channels(), 1 + vae.temporal_stride(), side, side}, 4)}},
            "mean");
    const Values noise = random_values({1, vae.z_dim, kFrames, kSide, kSide}, 5);
    for (Way& way : ways_) way.latents = noise;
    if (!blocks)
      for (int step = 0; step < 2; ++step) denoise(clip, step);
    decode();
  }

 private:
  void text(Named& clip) {
    Values ids{{1, kTokens}, {}};
    for (int64_t i = 0; i < kTokens; ++i)
      ids.data.push_back(static_cast<double>(3 + 7 * i % (model_.text.vocab_size - 3)));
    const Values rows = stage("text-encoder", {{"input_ids", ids}}, "last_hidden_state");
    if (model_.reads_text() && rows.dims.back() == model_.dit.text_dim) clip["encoder_hidden_states"] = rows;
  }

  // Returns the transformer's inputs other than latents and time.
  Named conditioned(Named clip) const {
    const WanConfig& c = model_.dit;
    if (!clip.contains("encoder_hidden_states"))
      clip["encoder_hidden_states"] = random_values({1, kTokens, c.text_dim}, 6);
    if (c.image_branch())
      clip["encoder_hidden_states_image"] =
          random_values({1, model_.image_encoder ? model_.clip.tokens() : 257, c.image_dim}, 7);
    if (c.audio_branch())
      clip["audio_embeds"] = random_values({1, 1 + 4 * (kFrames - 1), c.audio_layers, c.audio_dim}, 8);
    return clip;
  }

  void denoise(const Named& clip, int step) {
    const WanConfig& c = model_.dit;
    const Values extra = random_values({1, c.in_channels - c.out_channels, kFrames, kSide, kSide}, 9);
    const int expert = model_.experts() == 2 && step == 1 ? 1 : 0;
    std::vector<Values> made;
    for (Way& way : ways_) {
      say(options_, fmt::format("{} step {}", name_, step + 1));
      Named in = conditioned(clip);
      Values& x = in["hidden_states"] = way.latents;
      x.dims[1] = c.in_channels;
      x.data.insert(x.data.end(), extra.data.begin(), extra.data.end());
      in["timestep"] = {{1}, {1000 * kSigmas[step]}};
      made.push_back(way.run("transformer", in, "sample", expert));
      for (size_t i = 0; i < way.latents.data.size(); ++i)
        way.latents.data[i] += (kSigmas[step + 1] - kSigmas[step]) * made.back().data[i];
    }
    compare(fmt::format("denoise step {}{}", step + 1, expert ? " (transformer_2)" : ""), made);
  }

  void decode() {
    const VaeConfig& vae = model_.vae_config;
    std::vector<Values> made;
    for (Way& way : ways_) {
      say(options_, name_ + " vae-decode");
      Values x = way.latents;
      const size_t each = x.data.size() / static_cast<size_t>(vae.z_dim);
      for (size_t i = 0; !vae.latents_mean.empty() && i < x.data.size(); ++i)
        x.data[i] = x.data[i] * vae.latents_std[i / each] + vae.latents_mean[i / each];
      made.push_back(way.run("vae-decode", {{"latents", x}}, "decoded"));
    }
    compare("vae-decode", made);
  }

  Values stage(const char* stage, const Named& inputs, const char* output) {
    std::vector<Values> made;
    for (Way& way : ways_) {
      say(options_, fmt::format("{} {}", name_, stage));
      made.push_back(way.run(stage, inputs, output));
    }
    compare(stage, made);
    return made[1];
  }

  void compare(const std::string& stage, const std::vector<Values>& made) {
    Check check{.kind = "stage", .name = fmt::format("{}: {}", name_, stage)};
    compare_with_definitions(made[0], made[1], made.size() > 2 ? &made[2] : nullptr, low_, check);
    checks_.push_back(std::move(check));
  }

  const ModelBundle& model_;
  std::string name_;
  const ValidateOptions& options_;
  std::vector<Check>& checks_;
  bool low_;  // true for 16 bits
  TemporaryFolder folder_;
  std::vector<Way> ways_;
};

}  // namespace

RunPrecision precision_at(const ValidateOptions& o) {
  if (o.device == "cpu") return {.bf16 = find_level(o.level).mode.compute == Compute::bf16};
  const GpuMode mode =
      gpu_mode(o.level, o.dtypes.empty() ? std::string_view() : std::string_view(o.dtypes.front()));
  return {.bf16 = mode.activation != DType::f32, .low_residual = mode.residual != DType::f32};
}

void compare_with_definitions(const Values& got, const Values& definitions, const Values* rounded, bool low,
                              Check& check) {
  double max = kDefinitionsMax, mean = kDefinitionsMean;
  std::string beside = "the definitions in float32";
  if (low && rounded) {
    Check own;
    compare_values(*rounded, definitions, {}, {}, {}, 0, own);
    max = std::max(max, kRounded * own.max), mean = std::max(mean, kRounded * own.mean);
    beside = fmt::format("the definitions, which differ by {:.1e}, {:.1e} themselves with products in bf16",
                         own.max, own.mean);
  } else if (low) {
    max = kOriginalBf16Max, mean = kOriginalBf16Mean;
    beside = "float32; no figure is stored of this model: held to the official models' own on their weights";
  }
  const RunPrecision precision{.bf16 = low};
  compare_values(got, definitions, {{precision.name(), {{"max", max}, {"mean", mean}}}}, precision, {1, 1}, 0,
                 check);
  const size_t asked = std::min(check.detail.find("; asked"), check.detail.size());
  const bool said = check.detail.starts_with("beyond") || asked < check.detail.size() ||
                    check.detail.starts_with("mean at most");
  if (said)
    check.detail = fmt::format("{}mean at most {:.1e}; beside {}{}", check.ok ? "" : "beyond the bound; ",
                               mean, beside, check.detail.substr(asked));
}

void validate_stages_by_definitions(const ModelBundle& model, const std::string& name, bool blocks,
                                    const ValidateOptions& options, std::vector<Check>& checks) {
  ModelChecks(model, name, options, checks).run(blocks);
}

}  // namespace tachy
