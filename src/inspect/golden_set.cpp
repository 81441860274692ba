#include "inspect/golden_set.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "inspect/stage.h"
#include "media/image_reader.h"
#include "pipelines/text_to_video.h"
#include "weights/json_file.h"
#include "weights/safetensors.h"
#include "weights/scope.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// How many times the reference's own error is allowed, of the largest and of the mean.
struct Factors {
  double max = 3, mean = 3;
};

// A folder of its own under the system's temporary one, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "tachyscope-validate-XXXXXX").string();
    check(mkdtemp(name.data()) != nullptr, ErrorCode::io, "validate: cannot make a folder in {}: {}",
          fs::temp_directory_path().string(), std::strerror(errno));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string sha256_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  check(in.good(), ErrorCode::not_found, "validate: cannot read {}", file.string());
  Sha256 sum;
  std::vector<char> piece(1 << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)
    sum.add({reinterpret_cast<const uint8_t*>(piece.data()), static_cast<size_t>(in.gcount())});
  return sum.hex();
}

// Tensors of a file as doubles.
class TensorFile {
 public:
  explicit TensorFile(const fs::path& path)
      : source_(open_weights(path)), scope_(source_), name_(path.string()) {}

  struct Values {
    std::vector<int64_t> dims;
    std::vector<double> data;
  };
  Values read(const std::string& name) const {
    const TensorSource::Entry* entry = source_->find(name);
    check(entry != nullptr, ErrorCode::corrupt, "{}: no tensor '{}'", name_, name);
    const Tensor t = scope_.tensor(name, std::span<const int64_t>(entry->dims));
    Values out{entry->dims, std::vector<double>(static_cast<size_t>(t.numel()))};
    for (int64_t i = 0; i < t.numel(); ++i) {
      // A mapped file promises no alignment.
      const char* at = static_cast<const char*>(t.data) + i * dtype_size(t.dtype);
      if (t.dtype == DType::f32) {
        float v;
        std::memcpy(&v, at, sizeof v);
        out.data[static_cast<size_t>(i)] = v;
      } else if (t.dtype == DType::i64) {
        int64_t v;
        std::memcpy(&v, at, sizeof v);
        out.data[static_cast<size_t>(i)] = static_cast<double>(v);
      } else {
        fail(ErrorCode::corrupt, "{}: '{}' is {}, expected f32 or i64", name_, name, dtype_name(t.dtype));
      }
    }
    return out;
  }

 private:
  std::shared_ptr<TensorSource> source_;
  Scope scope_;
  std::string name_;
};

struct RunPrecision {
  bool bf16 = false;  // or f16: the golden values know the reference's errors in bfloat16
  bool step_cache = false;
  bool low_residual = false;  // the residual stream is bf16 or f16, too, as the reference's
  // A stage errs no more than the reference itself in bfloat16. (In float32 both errors are of the order of
  // one rounding, and their ratio is chance.)
  Factors of_stage() const { return bf16 ? Factors{1, 1} : Factors{}; }
  // So does the mean of a run's latents, while the largest of some ten thousand
  // values that twenty guided steps have amplified is chance: any change of a sum's
  // order has moved it between half and 1.2 of the reference's. With a bf16 residual
  // stream the arithmetic is the reference's and so is, on average, the error.
  Factors of_run() const { return !bf16 ? Factors{} : low_residual ? Factors{3, 1.5} : Factors{2, 1}; }
  double decibel() const {
    return !bf16 ? 9.5 : low_residual ? 3.5 : 0;
  }  // that frames may lie below its own
  const char* name() const { return bf16 ? "bfloat16" : "float32"; }
};

// What of a model runs on the GPU.
bool runs_on_gpu(const std::string& stage) {
  return stage == "text-encoder" || stage == "transformer" || stage.starts_with("vae");
}

// own: the reference's errors by precision; empty: the values must be equal.
void compare_values(const TensorFile::Values& got, const TensorFile::Values& want, const json& own,
                    const RunPrecision& precision, Factors factors, double least, Check& check) {
  if (got.dims != want.dims) {
    check.ok = false;
    check.detail = fmt::format("expected {}, got {}", shape_string(want.dims), shape_string(got.dims));
    return;
  }
  double highest = 0, sum = 0;
  bool finite = true;
  for (size_t i = 0; i < want.data.size(); ++i) {
    highest = std::max(highest, std::abs(want.data[i]));
    const double e = std::abs(got.data[i] - want.data[i]);
    finite = finite && std::isfinite(e);
    check.max = std::max(check.max, e), sum += e;
  }
  const double scale = highest > 0 ? highest : 1;
  check.max /= scale, check.mean = sum / static_cast<double>(std::max<size_t>(1, want.data.size())) / scale;
  double mean_bound = 0;
  check.detail = "equal";
  if (!own.empty()) {
    const json& errors = own.at(precision.name());
    const double own_max = errors.at("max").get<double>(), own_mean = errors.at("mean").get<double>();
    check.bound = std::max(factors.max * own_max, least);
    mean_bound = std::max(factors.mean * own_mean, least / 10);
    check.detail = fmt::format("mean at most {:.1e}; PyTorch's own {}: {:.1e}, {:.1e}", mean_bound,
                               precision.name(), own_max, own_mean);
  }
  check.ok = finite && check.max <= check.bound && check.mean <= mean_bound;
  if (precision.bf16 && !own.empty())
    check.detail += fmt::format("; acceptance of {:g} and {:g}: {}", kBf16Max, kBf16Mean,
                                check.max < kBf16Max && check.mean < kBf16Mean ? "met" : "not met");
  if (!check.ok) check.detail = finite ? "beyond the bound; " + check.detail : "NaN or Inf";
}

void say(const ValidateOptions& options, const std::string& text) {
  if (options.progress) options.progress(text);
  if (options.cancel && options.cancel->load()) fail(ErrorCode::cancelled, "cancelled");
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
    request.output = scratch.path() / (request.name + ".safetensors");
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
        compare_values(TensorFile(request.output).read(output), TensorFile(request.input).read(output), own,
                       precision, precision.of_stage(),
                       request.name.starts_with("vae") ? kLeastVaeError : kLeastError, check);
      else
        check.ok = false, check.detail = failure;
      checks.push_back(std::move(check));
    }
  }
}

VideoRequest generation_request(const json& run, const ValidateOptions& options) {
  VideoRequest r;
  r.prompt = run.at("prompt").get<std::string>(),
  r.negative_prompt = run.at("negative_prompt").get<std::string>();
  r.width = run.at("width").get<int>(), r.height = run.at("height").get<int>();
  r.frames = run.at("num_frames").get<int>(), r.steps = run.at("num_inference_steps").get<int>();
  r.guidance = run.at("guidance_scale").get<double>(), r.shift = run.at("flow_shift").get<double>();
  r.sampler = run.at("sampler").get<std::string>(), r.grid = run.at("grid").get<std::string>();
  r.seed = run.at("seed").get<uint64_t>(), r.level = options.level;
  if (!options.dtypes.empty()) r.dtype = options.dtypes.front();
  return r;
}

void validate_generation(const json& whole, const fs::path& folder, TextToVideo& pipeline,
                         const std::string& name, const RunPrecision& precision,
                         const ValidateOptions& options, std::vector<Check>& checks) {
  const VideoRequest request = generation_request(whole.at("run"), options);
  const json& own = whole.at("errors").at(precision.name());
  const RgbFrame strip = read_image(folder / "frames.png");
  const int width = *request.width, height = *request.height, frames = *request.frames;
  check(strip.width == width * frames && strip.height == height, ErrorCode::corrupt,
        "{}: expected {}x{}, {} frames side by side, got {}x{}", (folder / "frames.png").string(),
        width * frames, height, frames, strip.width, strip.height);
  say(options, name + " generation");
  TensorFile::Values latents;
  std::vector<std::vector<uint8_t>> pictures;
  VideoCallbacks callbacks{.cancel = options.cancel};
  callbacks.latents = [&](std::span<const float> values, std::span<const int64_t> shape) {
    latents = {{shape.begin(), shape.end()}, {values.begin(), values.end()}};
  };
  callbacks.frame = [&](const RgbImage& image, int64_t) {
    pictures.emplace_back(image.rgb.begin(), image.rgb.end());
  };
  callbacks.progress = [&](const Progress& p) {
    say(options, fmt::format("{} {} {}/{}", name, p.stage, p.done, p.total));
  };
  const ResolvedRequest done = pipeline.generate(request, callbacks);

  Check final_latents{.kind = "latents",
                      .name = fmt::format("{}: latents after {} steps", name, *request.steps)};
  compare_values(latents, TensorFile(folder / "generation.safetensors").read("latents"),
                 json{{precision.name(), own.at("latents")}}, precision, precision.of_run(), kLeastRunError,
                 final_latents);
  if (precision.step_cache) {  // shown; the frames decide
    final_latents.ok = true, final_latents.bound = 0;
    final_latents.detail =
        fmt::format("no bound with the step cache, which reused {} steps", done.steps_reused);
  }
  checks.push_back(std::move(final_latents));

  const double most = own.at("max_level").get<double>() + 1;
  const double least =
      precision.step_cache ? kStepCachePsnr : own.at("psnr").get<double>() - precision.decibel();
  std::vector<uint8_t> want(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (int i = 0; i < frames; ++i) {
    const size_t row = static_cast<size_t>(width) * 3;
    for (int y = 0; y < height; ++y)
      std::memcpy(want.data() + static_cast<size_t>(y) * row,
                  strip.rgb.data() +
                      (static_cast<size_t>(y) * static_cast<size_t>(frames) + static_cast<size_t>(i)) * row,
                  row);
    const FrameDistance d =
        frame_distance(pictures.at(static_cast<size_t>(i)).data(), want.data(), want.size());
    Check check{.kind = "frame",
                .name = fmt::format("{}: frame {}", name, i),
                .max = d.max,
                .mean = d.mean,
                .psnr = d.psnr};
    const bool levels_bind = !precision.bf16 && !precision.step_cache;
    check.bound = levels_bind ? most : 255;
    check.ok = d.psnr >= least && d.max <= check.bound;
    check.detail = fmt::format("at least {:.1f} dB{}", least,
                               levels_bind ? fmt::format(", at most {:g} levels", most) : "");
    checks.push_back(std::move(check));
  }
}

void validate_weights(const json& golden, const fs::path& model, const std::string& name,
                      std::vector<Check>& checks) {
  Check check{.kind = "weights", .name = name + ": weight files", .detail = "those of the golden values"};
  for (const auto& [file, sum] : golden.at("weights").items()) {
    if (sha256_of(model / file) == sum.get<std::string>()) continue;
    check.ok = false;
    check.detail = fmt::format(
        "{} is not the file that the golden values were made with; "
        "tools/golden/make_validation.py makes them anew",
        file);
    break;
  }
  checks.push_back(std::move(check));
}

}  // namespace

FrameDistance frame_distance(const uint8_t* a, const uint8_t* b, size_t bytes) {
  FrameDistance d;
  double squares = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const double e = std::abs(static_cast<int>(a[i]) - static_cast<int>(b[i]));
    d.max = std::max(d.max, e), d.mean += e, squares += e * e;
  }
  d.mean /= static_cast<double>(bytes);
  if (squares > 0) d.psnr = 10 * std::log10(255.0 * 255.0 * static_cast<double>(bytes) / squares);
  return d;
}

void validate_golden(const fs::path& folder, const ValidateOptions& options, std::vector<Check>& checks) {
  const fs::path file = folder / "golden.json";
  std::ifstream in(file);
  check(in.good(), ErrorCode::not_found,
        "--golden: {} is missing (tools/golden/make_validation.py makes such a folder)", file.string());
  try {
    const json golden = json::parse(in);
    check(golden.is_object() && golden.value("tachyscope_golden", 0) == 2, ErrorCode::corrupt,
          "{}: expected golden values of format 2 (tools/golden/make_validation.py)", file.string());
    const fs::path model =
        options.model.empty() ? folder / golden.at("model").get<std::string>() : options.model;
    const std::string name = fs::weakly_canonical(model).filename().string();
    say(options, name);
    validate_weights(golden, model, name, checks);
    TextToVideo pipeline(ModelBundle::open(model), {.threads = options.threads, .device = options.device});
    const json& whole = golden.at("generation");
    const ResolvedRequest r = pipeline.resolved(generation_request(whole.at("run"), options));
    const bool low = *r.request.dtype != "f32";
    const RunPrecision precision{.bf16 = low,
                                 .step_cache = *r.request.step_cache > 0,
                                 .low_residual = low && pipeline.gpu() && *r.request.residual != "f32"};
    validate_stages(golden, folder, model, name, precision, options, checks);
    validate_generation(whole, folder, pipeline, name, precision, options, checks);
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: {}", file.string(), e.what());
  }
}

}  // namespace tachy
