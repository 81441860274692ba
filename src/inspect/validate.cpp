#include "inspect/validate.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/field.h"
#include "base/thread_pool.h"
#include "catalog/model_bundle.h"
#include "catalog/places.h"
#include "cuda/open_device.h"
#include "inspect/golden_set.h"
#include "inspect/model_checks.h"
#include "inspect/op_runner.h"
#include "inspect/rollout_checks.h"
#include "inspect/say.h"
#include "ops/features.h"
#include "request/gpu_mode.h"
#include "request/level.h"

namespace tachy {
namespace {

using nlohmann::json;

bool holds(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

void expect_names(const char* field, const std::vector<std::string>& given,
                  std::initializer_list<std::string_view> known) {
  for (const std::string& name : given)
    require(std::find(known.begin(), known.end(), name) != known.end(), "`{}`: expected some of {}, got '{}'",
            field, fmt::join(known, ", "), name);
}

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    if (name == dtype_name(dtype)) return dtype;
  fail(ErrorCode::invalid_argument, "`dtypes`: expected some of f32, f16, bf16, got '{}'", name);
}

// Adds one line for each op (and on a GPU for each dtype): the worst of its cases.
void validate_ops(const ValidateOptions& options, cuda::Gpu* gpu, DType dtype, std::vector<Check>& checks) {
  OpRunnerOptions run{.filter = options.filter,
                      .ref = holds(options.modes, "ref"),
                      .bitwise = holds(options.modes, "bitwise"),
                      .canary = holds(options.modes, "canary"),
                      .tiny = holds(options.cases, "tiny"),
                      .odd = holds(options.cases, "odd"),
                      .real = holds(options.cases, "real"),
                      .video = holds(options.cases, "video"),
                      .seed = options.seed,
                      .threads = options.threads > 0 ? options.threads : available_processors(),
                      .gpu = gpu,
                      .dtype = dtype,
                      .capture = holds(options.modes, "capture"),
                      .max_definition_flops = options.max_definition_gflop * 1e9};
  run.started = [&](const ops::OpCase& c) { say(options, c.op + " " + c.name); };
  const std::string suffix = gpu ? fmt::format(" {}", dtype_name(dtype)) : "";
  struct Counts {
    int checked = 0, skipped = 0;
    std::map<std::string, int> reasons;
  };
  std::map<std::string, Check> by_op;
  std::map<std::string, Counts> counts;
  for (const OpResult& r : run_ops(run)) {
    Check& check = by_op[r.op];
    check.kind = "op", check.name = r.op + suffix, check.bound = 1;
    Counts& count = counts[r.op];
    if (r.skipped) {
      ++count.skipped, ++count.reasons[r.detail];
      continue;
    }
    ++count.checked;
    if (r.bound > 0) check.max = std::max(check.max, r.error / r.bound);
    if (r.ok) continue;
    check.ok = false;
    check.failures.push_back(fmt::format("{} {}: {}; {}", r.mode, r.id(), r.detail, r.repeat()));
  }
  for (auto& [op, check] : by_op) {
    const Counts& count = counts[op];
    check.skipped = count.checked == 0;
    check.detail = fmt::format("{} checks", count.checked);
    if (!check.failures.empty()) check.detail += fmt::format(", {} failed", check.failures.size());
    if (count.skipped > 0) {
      const auto most = std::max_element(count.reasons.begin(), count.reasons.end(),
                                         [](auto& a, auto& b) { return a.second < b.second; });
      check.detail += fmt::format(", {} skipped ({}{})", count.skipped, most->first,
                                  count.reasons.size() > 1 ? ", …" : "");
    }
    checks.push_back(std::move(check));
  }
}

// Checks the model's own golden values in this level's arithmetic. On a CPU it checks them in float32 and, if
// the error of a reference in bf16 is known, in bf16.
void validate_own_golden(const std::filesystem::path& folder, const ValidateOptions& options,
                         std::vector<Check>& checks) {
  ValidateOptions own = options;
  own.model.clear();
  validate_golden(folder, own, checks);
  if (options.device != "cpu" || precision_at(options).bf16 || options.level == "none") return;
  if (const auto why = ops::why_no_bf16()) {
    checks.push_back({.kind = "latents",
                      .name = folder.parent_path().filename().string() + " in bf16",
                      .skipped = true,
                      .detail = why->text()});
    return;
  }
  own.level = "aggressive";
  validate_golden(folder, own, checks, " in bf16");
}

// Checks a model that was named: by its own golden values, or by its definitions if it has none. Returns
// false if a golden folder was given for it.
bool validate_named_model(const ValidateOptions& options, std::vector<Check>& checks) {
  const bool blocks = checks_blocks(options.model);
  if (!blocks && !options.golden.empty()) return false;
  std::error_code ec;
  const auto own = options.model / "golden";
  const bool has_golden = std::filesystem::exists(own / "golden.json", ec);
  if (blocks) validate_block_model(options.model, options, checks);
  if (has_golden && options.golden.empty()) {
    validate_own_golden(own, options, checks);
  } else {
    const ModelBundle bundle = ModelBundle::open(options.model);
    validate_stages_by_definitions(bundle,
                                   std::filesystem::weakly_canonical(options.model).filename().string(),
                                   blocks, options, checks);
  }
  ValidateOptions others = options;  // golden folders belong to models of their own
  others.model.clear();
  for (const auto& folder : options.golden) validate_golden(folder, others, checks);
  return true;
}

}  // namespace

std::vector<std::filesystem::path> shipped_golden() {
  std::vector<std::filesystem::path> found;
  std::error_code ec;
  for (const auto& place : model_places()) {
    if (!std::filesystem::is_directory(place, ec)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(place, ec))
      if (const auto folder = entry.path() / "golden"; std::filesystem::exists(folder / "golden.json", ec))
        found.push_back(std::filesystem::weakly_canonical(folder, ec));
    if (!found.empty()) break;  // the first place that has models is used
  }
  std::sort(found.begin(), found.end());
  return found;
}

void check_validate(const ValidateOptions& options) {
  check_range("threads", options.threads, kThreadsRange);
  cuda::check_device_name(options.device);
  expect_names("modes", options.modes, {"ref", "bitwise", "canary", "capture"});
  require(options.device != "cpu" || !holds(options.modes, "capture"),
          "`modes`: capture (in a CUDA graph) needs `device` cuda");
  require(options.device != "cpu" || options.dtypes.empty(),
          "`dtypes`: they are of a GPU's activations; expected `device` cuda with them, and this run is on "
          "the CPU");
  for (const std::string& dtype : options.dtypes)
    gpu_mode(options.level, std::string_view(dtype_name(dtype_named(dtype))));
  expect_names("cases", options.cases, {"tiny", "odd", "real", "video"});
  find_level(options.level);
  for (const auto& folder : options.golden)
    check(std::filesystem::exists(folder / "golden.json"), ErrorCode::not_found,
          "`golden`: {} has no golden.json (tools/golden/make_validation.py makes such a folder)",
          folder.string());
  if (!options.model.empty()) naming("`model`", [&] { ModelBundle::open(options.model); });
}

std::vector<Check> run_validate(const ValidateOptions& options) {
  check_validate(options);
  std::vector<Check> checks;
  const auto gpu = cuda::open_device(options.device);  // fails here if there is no such device
  if (options.ops) {
    if (!gpu) validate_ops(options, nullptr, DType::f32, checks);
    std::vector<std::string> dtypes = options.dtypes;
    if (gpu && dtypes.empty())
      dtypes.emplace_back(dtype_name(gpu_mode(options.level, "", gpu->info().capability()).activation));
    for (const std::string& dtype : gpu ? dtypes : std::vector<std::string>())
      validate_ops(options, gpu.get(), dtype_named(dtype), checks);
  }
  if (!options.models) return checks;
  if (!options.model.empty() && validate_named_model(options, checks)) return checks;
  const auto folders = options.golden.empty() ? shipped_golden() : options.golden;
  for (const auto& folder : folders) validate_golden(folder, options, checks);
  if (folders.empty())
    checks.push_back(
        {.kind = "stage",
         .name = "models",
         .skipped = true,
         .detail = "no model that ships has golden files here; give a folder of them as `golden`"});
  return checks;
}

json to_json(const std::vector<Check>& checks) {
  json list = json::array();
  int failed = 0, skipped = 0;
  for (const Check& c : checks) {
    failed += !c.ok, skipped += c.skipped;
    json line = {
        {"kind", c.kind}, {"name", c.name},   {"result", c.skipped ? "skipped" : c.ok ? "ok" : "failed"},
        {"max", c.max},   {"bound", c.bound}, {"detail", c.detail}};
    if (c.kind != "op") line["mean"] = c.mean;
    if (c.psnr >= 0) line["psnr"] = c.psnr;
    if (!c.failures.empty()) line["failures"] = c.failures;
    list.push_back(std::move(line));
  }
  return {{"checks", list}, {"failed", failed}, {"skipped", skipped}, {"ok", failed == 0}};
}

}  // namespace tachy
