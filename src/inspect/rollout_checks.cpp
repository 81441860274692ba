#include "inspect/rollout_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "inspect/golden_compare.h"
#include "inspect/model_checks.h"
#include "inspect/say.h"
#include "report/causal_roll.h"
#include "tensor/random.h"
#include "worlds/world_config.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlocksRolled = 8, kFewBlocks = 3, kTextRows = 512, kTextGiven = 40, kImageRows = 257;
constexpr int64_t kMostHeight = 12, kMostWidth = 20;    // latents; rounding does not depend on the size
constexpr double kMostDefinitionFlops = 2e10;           // more than this takes some tens of seconds
constexpr double kLeastLatentsError = 2 * kLeastError;  // error in float32, over eight blocks

struct Rolled {
  TensorFile::Values latents, velocities;
};

// A rollout's inputs, with the memory that holds them.
struct OwnedInputs {
  CausalInputs in;
  std::deque<std::vector<float>> storage;
  Tensor keep(std::vector<float> values, std::span<const int64_t> dims) {
    std::vector<float>& own = storage.emplace_back(std::move(values));
    return Tensor(own.data(), DType::f32, dims);
  }
};

Rolled rolled(const TransformerFiles& files, const CausalInputs& in, const SingleRun& how) {
  const Tensor& x = in.noise;
  std::vector<float> latents(static_cast<size_t>(x.numel()), NAN),
      velocities(latents.size() * in.timesteps.size(), NAN);
  roll_out(files, in, true, how, Tensor(latents.data(), DType::f32, x.shape()), velocities.data());
  const auto values = [](const std::vector<float>& v) {
    return TensorFile::Values{{static_cast<int64_t>(v.size())}, {v.begin(), v.end()}};
  };
  return {values(latents), values(velocities)};
}

SingleRun run_of(const ValidateOptions& o) {
  SingleRun how{.threads = o.threads, .device = o.device, .level = o.level, .cancel = o.cancel};
  if (o.device != "cpu" && !o.dtypes.empty()) how.dtype = o.dtypes.front();
  return how;
}

std::string text_of(const TensorSource& source, const char* key) {
  const auto at = source.metadata().find(key);
  check(at != source.metadata().end(), ErrorCode::corrupt, "{}: no '{}' in its metadata", source.files_text(),
        key);
  return at->second;
}

// Reads a golden case's inputs as tools/golden/make_causal.py stores them.
OwnedInputs golden_inputs(const TensorSource& source, const fs::path& file, const WanConfig& c) {
  const TensorFile tensors(file);
  OwnedInputs out;
  const auto read = [&](const char* name) {
    if (!source.has(name)) return Tensor();
    const TensorFile::Values v = tensors.read(name);
    return out.keep({v.data.begin(), v.data.end()}, v.dims);
  };
  CausalInputs& in = out.in;
  in.noise = read("noise"), in.fresh = read("fresh"), in.known = read("given"),
  in.condition = read("condition");
  (c.text_dim > 0 ? in.text : in.image) = read("context");
  in.script = {read("keyboard"), read("mouse")};
  const auto list = [&](const char* key) { return parse_json_line(text_of(source, key)); };
  in.blocks = list("blocks").get<std::vector<int64_t>>();
  in.timesteps = list("timesteps").get<std::vector<double>>();
  in.sampler = {.kind = SamplerKind::lcm, .steps = static_cast<int>(in.timesteps.size())};
  in.sampler.timesteps = in.timesteps, in.sampler.sigmas = list("sigmas").get<std::vector<double>>();
  in.window = {.frames = std::stoll(text_of(source, "window")),
               .sinks = std::stoll(text_of(source, "sinks"))};
  if (c.text_dim > 0) in.text_rows = std::stoll(text_of(source, "context_rows"));
  check(in.noise.defined() && in.sampler.sigmas.size() == in.timesteps.size(), ErrorCode::corrupt,
        "{}: expected noise and as many sigmas as timesteps", file.string());
  return out;
}

void check_case(const std::string& name, const nlohmann::json& errors, const fs::path& folder,
                const ValidateOptions& options, std::vector<Check>& checks) {
  say(options, "rollout " + name);
  const fs::path file = folder / (name + ".safetensors");
  const RunPrecision precision = precision_at(options);
  Rolled got;
  std::string failure;
  try {
    const auto source = open_weights(file);
    const TransformerFiles files = open_transformer(folder / text_of(*source, "model"));
    const OwnedInputs inputs = golden_inputs(*source, file, files.config);
    got = rolled(files, inputs.in, run_of(options));
  } catch (const Error& e) {
    if (e.code() == ErrorCode::cancelled) throw;
    failure = e.message();
  }
  for (auto [output, values] :
       {std::pair("velocities", &got.velocities), std::pair("latents", &got.latents)}) {
    Check check{.kind = "rollout", .name = fmt::format("{}: {}", name, output)};
    if (failure.empty()) {
      TensorFile::Values want = TensorFile(file).read(output);
      want.dims = {static_cast<int64_t>(want.data.size())};
      const bool latents = std::string_view(output) == "latents";
      compare_values(*values, want, errors.at(output), precision, precision.of_rollout(),
                     latents ? kLeastLatentsError : kLeastError, check);
    } else {
      check.ok = false, check.detail = failure;
    }
    checks.push_back(std::move(check));
  }
}

std::vector<float> normals(TorchCpuGenerator& gen, int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  gen.normal(out);
  return out;
}

// Makes random inputs for a model: `blocks` blocks of latents of this size.
OwnedInputs random_inputs(const WanConfig& c, const WorldConfig& world, int64_t blocks, int64_t height,
                          int64_t width, uint64_t seed) {
  OwnedInputs out;
  CausalInputs& in = out.in;
  TorchCpuGenerator gen(seed);
  in.blocks.assign(static_cast<size_t>(blocks), world.block);
  const int64_t z = c.out_channels, frames = blocks * world.block, extra = c.in_channels - z;
  in.sampler = world_sampler(world, {});
  in.timesteps = in.sampler.timesteps;
  const auto steps = static_cast<int64_t>(in.timesteps.size());
  const auto random = [&](std::initializer_list<int64_t> dims) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    return out.keep(normals(gen, count), std::span(dims.begin(), dims.size()));
  };
  in.noise = random({z, frames, height, width});
  if (steps > 1) in.fresh = random({steps - 1, z, frames, height, width});
  if (extra > 0) in.condition = random({extra, frames, height, width});
  if (c.text_dim > 0) in.text = random({kTextGiven, c.text_dim}), in.text_rows = kTextRows;
  if (c.image_dim > 0) in.image = random({kImageRows, c.image_dim});
  const WanActionConfig& a = c.actions;
  const int64_t pixels = 1 + a.frames_each * frames;
  if (a.keyboard_dim > 0 && a.present()) {
    std::vector<float> keys = normals(gen, pixels * a.keyboard_dim);
    for (float& k : keys) k = k > 0 ? 1.0f : 0.0f;
    in.script.keyboard = out.keep(std::move(keys), std::array{pixels, a.keyboard_dim});
    if (a.mouse_dim > 0) {
      std::vector<float> mouse = normals(gen, pixels * a.mouse_dim);
      for (float& m : mouse) m *= 0.1f;
      in.script.mouse = out.keep(std::move(mouse), std::array{pixels, a.mouse_dim});
    }
  }
  in.window = {.frames = world.window, .sinks = world.sinks, .sinks_follow = world.sinks > 0};
  return out;
}

// Returns a rough estimate: the products of all passes.
double flops_of(const WanConfig& c, const CausalInputs& in) {
  const auto dim = static_cast<double>(c.dim()),
             tokens = static_cast<double>(in.noise.dim(2) * in.noise.dim(3) / 4);
  const double layer = 2 * (6 * dim * dim + 2 * dim * static_cast<double>(c.ffn_dim));
  return layer * static_cast<double>(c.num_layers) * tokens * static_cast<double>(in.frames()) *
         static_cast<double>(in.timesteps.size() + 1);
}

// Compares both outputs, one line each. `rounded`: definitions with bf16 products, or null (model_checks.h).
void compare_both(const std::string& what, const Rolled& got, const Rolled& want, const Rolled* rounded,
                  bool bf16, std::vector<Check>& checks) {
  for (const bool latents : {false, true}) {
    const auto of = [&](const Rolled& r) -> const TensorFile::Values& {
      return latents ? r.latents : r.velocities;
    };
    Check check{.kind = "rollout", .name = fmt::format("{}: {}", what, latents ? "latents" : "velocities")};
    compare_with_definitions(of(got), of(want), rounded ? &of(*rounded) : nullptr, bf16, check);
    checks.push_back(std::move(check));
  }
}

}  // namespace

bool checks_blocks(const fs::path& model) {
  return naming("`model`", [&] { return made_block_by_block(ModelBundle::open(model)); });
}

void validate_rollouts(const nlohmann::json& golden, const fs::path& folder, const ValidateOptions& options,
                       std::vector<Check>& checks) {
  for (const auto& [name, errors] : golden.at("rollouts").items())
    check_case(name, errors, folder, options, checks);
}

void validate_block_model(const fs::path& model, const ValidateOptions& options, std::vector<Check>& checks) {
  const ModelBundle bundle = ModelBundle::open(model);
  const WorldConfig world = world_config(bundle, {});
  const TransformerFiles files{bundle.transformer, bundle.dit, bundle.original};
  const std::string name = fs::weakly_canonical(model).filename().string();
  const int64_t stride = bundle.vae_config.spatial_stride();
  const int64_t height = std::min(kMostHeight, world.height / stride / 2 * 2),
                width = std::min(kMostWidth, world.width / stride / 2 * 2);
  const bool on_gpu = options.device != "cpu";
  const auto run = [&](const char* level, const char* dtype, const std::string& device) {
    return SingleRun{.threads = options.threads,
                     .device = device,
                     .level = level,
                     .dtype = dtype,
                     .cancel = options.cancel};
  };
  const SingleRun exact = run("safe", "f32", options.device);
  SingleRun low = exact;
  low.level = on_gpu ? options.level : "safe", low.dtype = "bf16";
  const OwnedInputs few = random_inputs(bundle.dit, world, kFewBlocks, std::min<int64_t>(height, 4),
                                        std::min<int64_t>(width, 6), options.seed);
  const std::string in_f32 = fmt::format("{}: float32 beside {}", name, on_gpu ? "the CPU" : "definitions"),
                    in_bf16 = fmt::format("{}: bf16 beside {}", name, on_gpu ? "float32" : "definitions");
  const double flops = flops_of(bundle.dit, few.in);
  const bool too_long = flops > (on_gpu ? 100 : 1) * kMostDefinitionFlops;
  if (too_long) {
    checks.push_back({.kind = "rollout",
                      .name = in_f32,
                      .skipped = true,
                      .detail = fmt::format("{:.0f} GFLOP would take long", flops * 1e-9)});
  } else {
    say(options, in_f32);
    const Rolled definitions =
        rolled(files, few.in, on_gpu ? run("safe", "f32", "cpu") : run("none", "f32", "cpu"));
    compare_both(in_f32, rolled(files, few.in, exact), definitions, nullptr, false, checks);
    if (!on_gpu) {
      say(options, in_bf16);
      const Rolled rounded = rolled(files, few.in, run("none", "bf16", "cpu"));
      compare_both(in_bf16, rolled(files, few.in, low), definitions, &rounded, true, checks);
    }
  }
  if (on_gpu || too_long) {  // then there are no such definitions to compare with
    const OwnedInputs inputs = random_inputs(bundle.dit, world, kBlocksRolled, height, width, options.seed);
    const std::string what = fmt::format("{}: bf16 beside float32", name);
    say(options, what);
    compare_both(what, rolled(files, inputs.in, low), rolled(files, inputs.in, exact), nullptr, true, checks);
  }
}

}  // namespace tachy
