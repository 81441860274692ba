#include "inspect/golden_set.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json_mistake.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/text_file.h"
#include "engine/text_to_video.h"
#include "inspect/golden_compare.h"
#include "inspect/golden_runs.h"
#include "inspect/rollout_checks.h"
#include "inspect/say.h"
#include "inspect/temporary_folder.h"
#include "report/stage.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string sha256_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  check(in.good(), ErrorCode::not_found, "validate: cannot read {}", file.string());
  Sha256 sum;
  std::vector<char> piece(1 << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)
    sum.add({reinterpret_cast<const uint8_t*>(piece.data()), static_cast<size_t>(in.gcount())});
  return sum.hex();
}

// Says whether a stage of a model runs on the GPU.
bool runs_on_gpu(const std::string& stage) {
  return stage == "text-encoder" || stage == "transformer" || stage.starts_with("vae");
}

StageRequest stage_request(const json& stage, const fs::path& folder, const fs::path& model,
                           const ValidateOptions& options) {
  StageRequest r{.name = stage.at("stage").get<std::string>(), .model = model};
  r.input = folder / (r.name + ".safetensors");
  r.prompt = stage.value("prompt", "");
  r.sampler = stage.value("sampler", r.sampler), r.grid = stage.value("grid", r.grid);
  r.steps = stage.value("steps", r.steps), r.shift = stage.value("shift", r.shift);
  r.seed = stage.value("seed", r.seed), r.shape = stage.value("shape", r.shape);
  r.level = options.level, r.threads = options.threads, r.cancel = options.cancel;
  if (runs_on_gpu(r.name)) r.device = options.device;
  if (r.device != "cpu" && !options.dtypes.empty()) r.dtype = options.dtypes.front();
  return r;
}

void validate_stages(const json& golden, const fs::path& folder, const fs::path& model,
                     const std::string& name, const RunPrecision& precision, const ValidateOptions& options,
                     std::vector<Check>& checks) {
  const TemporaryFolder scratch;
  for (const json& stage : golden.at("stages")) {
    StageRequest request = stage_request(stage, folder, model, options);
    say(options, name + " " + request.name);
    request.out = scratch.path() / (request.name + ".safetensors");
    std::string failure;
    try {
      run_stage(request);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled) throw;
      failure = e.message();
    }
    for (const auto& [output, own] : stage.at("outputs").items()) {
      Check check{.kind = "stage", .name = fmt::format("{}: {}: {}", name, request.name, output)};
      if (failure.empty())
        compare_values(TensorFile(request.out).read(output), TensorFile(request.input).read(output), own,
                       precision, precision.of_stage(),
                       request.name.starts_with("vae") ? kLeastVaeError : kLeastError, check);
      else
        check.ok = false, check.detail = failure;
      checks.push_back(std::move(check));
    }
  }
}

void validate_weights(const json& golden, const fs::path& model, const std::string& name,
                      std::vector<Check>& checks) {
  Check check{.kind = "weights", .name = name + ": weight files", .detail = "those of the golden values"};
  for (const auto& [file, sum] : golden.at("weights").items()) {
    if (sha256_of(model / file) == sum.get<std::string>()) continue;
    check.ok = false;
    check.detail = fmt::format(
        "{} is not the file that the golden values were made with; tools/golden/make_validation.py makes "
        "them again",
        file);
    break;
  }
  checks.push_back(std::move(check));
}

}  // namespace

void validate_golden(const fs::path& folder, const ValidateOptions& options, std::vector<Check>& checks,
                     const std::string& suffix) {
  const fs::path file = folder / "golden.json";
  std::error_code ec;
  check(fs::exists(file, ec), ErrorCode::not_found,
        "`golden`: {} is missing (tools/golden/make_validation.py makes such a folder)", file.string());
  try {
    const json golden = parse_json_text(read_text_file(file), file.string());
    check(golden.is_object() && golden.value("tachyscope_golden", 0) == 2, ErrorCode::corrupt,
          "{}: expected golden values of format 2 (tools/golden/make_validation.py)", file.string());
    if (golden.contains("rollouts")) return validate_rollouts(golden, folder, options, checks);
    const fs::path model =
        options.model.empty() ? folder / golden.at("model").get<std::string>() : options.model;
    const std::string name = fs::weakly_canonical(model).filename().string() + suffix;
    say(options, name);
    validate_weights(golden, model, name, checks);
    const json& whole = golden.at("generation");
    const json& run = whole.at("run");
    ModelBundle bundle = ModelBundle::open(model);
    if (run.value("kind", "") == "world")
      return compare_generation(whole, folder, run_world(std::move(bundle), run, folder, name, options), name,
                                checks);
    TextToVideo pipeline(std::move(bundle), {.threads = options.threads, .device = options.device});
    validate_stages(golden, folder, model, name, precision_of(pipeline, golden_request(run, folder, options)),
                    options, checks);
    compare_generation(whole, folder, run_clip(pipeline, run, folder, name, options), name, checks);
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: {}", file.string(), json_words(e.what()));
  }
}

}  // namespace tachy
