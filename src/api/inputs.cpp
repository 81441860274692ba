// Files that a request refers to (pictures, embeddings, latents), and the state that a resumed run starts
// from.
#include <nlohmann/json.hpp>

#include "api/tachyscope.h"
#include "media/picture/image_reader.h"
#include "media/sound/sound_reader.h"
#include "weights/safetensors.h"
#include "weights/scope.h"

namespace tachy {
namespace {

constexpr const char* kStateFormat = "tachyscope run state 1";

std::vector<float> floats(const TensorSource& source, const TensorSource::Entry& entry) {
  require(!entry.derived, "{}: '{}' is quantised ({}); expected f32, bf16 or f16", source.files_text(),
          entry.name, entry.derived ? entry.derived->encoding() : "");
  std::vector<float> out(static_cast<size_t>(entry.bytes) / static_cast<size_t>(dtype_size(entry.dtype)));
  const auto* from = static_cast<const uint8_t*>(entry.data);
  for (float& value : out) {
    uint16_t half = 0;
    switch (entry.dtype) {
      case DType::f32:
        std::memcpy(&value, from, 4), from += 4;
        break;
      case DType::bf16:
        std::memcpy(&half, from, 2), from += 2;
        value = to_float(bf16_t{half});
        break;
      case DType::f16:
        std::memcpy(&half, from, 2), from += 2;
        value = to_float(f16_t{half});
        break;
      default:
        fail(ErrorCode::invalid_argument, "{}: '{}' has dtype {}; expected f32, bf16 or f16",
             source.files_text(), entry.name, dtype_name(entry.dtype));
    }
  }
  return out;
}

const TensorSource::Entry& entry_of(const TensorSource& source, std::string_view name) {
  const TensorSource::Entry* entry = source.find(name);
  check(entry != nullptr && entry->unusable.empty(), ErrorCode::corrupt, "{}: no usable tensor '{}'",
        source.files_text(), name);
  return *entry;
}

}  // namespace

Speech read_speech_of(const std::filesystem::path& path) { return {read_speech(path)}; }

Picture read_picture(const std::filesystem::path& path) {
  RgbFrame frame = read_image(path);
  return {frame.width, frame.height, std::move(frame.rgb)};
}

ImageEmbeds read_image_embeds(const std::filesystem::path& path) {
  const auto source = open_weights(path);
  const TensorSource::Entry* entry = source->find("image_embeds");
  if (!entry) entry = source->find("encoder_hidden_states_image");
  check(entry && entry->unusable.empty(), ErrorCode::invalid_argument,
        "{}: expected a tensor named 'image_embeds'", path.string());
  return {floats(*source, *entry), entry->dims};
}

std::shared_ptr<const Picture> fit_picture(const std::shared_ptr<const Picture>& picture,
                                           const std::string& fit, int width, int height) {
  if (!picture || (picture->width == width && picture->height == height)) return picture;
  const RgbView view{picture->rgb.data(), picture->width, picture->height, int64_t{picture->width} * 3};
  RgbFrame fitted = fit == "crop" ? resize_crop(view, width, height) : resize(view, width, height);
  return std::make_shared<const Picture>(Picture{width, height, std::move(fitted.rgb)});
}

LatentFile read_latents(const std::filesystem::path& path) {
  const auto source = open_weights(path);
  const TensorSource::Entry* entry = source->find("latents");
  check(entry && entry->dtype == DType::f32, ErrorCode::invalid_argument,
        "{}: expected a float32 tensor named 'latents'", path.string());
  LatentFile out;
  out.shape = entry->dims;
  if (out.shape.size() == 5 && out.shape[0] == 1) out.shape.erase(out.shape.begin());
  require(out.shape.size() == 4, "{}: 'latents' is {}, expected [z, T, h, w]", path.string(),
          shape_string(entry->dims));
  const Scope scope(source);
  const Tensor t = scope.tensor("latents", std::span<const int64_t>(entry->dims));
  out.values.assign(t.as<float>(), t.as<float>() + t.numel());
  out.about = source->metadata();
  return out;
}

std::map<std::string, std::string> read_metadata(const std::filesystem::path& path) {
  return open_weights(path)->metadata();
}

void write_latents(const std::filesystem::path& path, std::span<const float> values,
                   std::span<const int64_t> shape, const std::map<std::string, std::string>& about) {
  write_safetensors(path, {{"latents", Tensor(const_cast<float*>(values.data()), DType::f32, shape)}}, about);
}

void write_run_state(const std::filesystem::path& path, const RunStateView& state,
                     const std::map<std::string, std::string>& about) {
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, std::span<const float> values) {
    tensors.push_back(
        {name, Tensor(const_cast<float*>(values.data()), DType::f32, {static_cast<int64_t>(values.size())})});
  };
  add("latents", state.latents);
  for (size_t i = 0; i < state.solver.size(); ++i) add(fmt::format("solver.{}", i), state.solver[i]);
  tensors.push_back({"generator", Tensor(const_cast<uint8_t*>(state.generator.data()), DType::u8,
                                         {static_cast<int64_t>(state.generator.size())})});
  auto metadata = about;
  metadata["format"] = kStateFormat;
  metadata["step"] = fmt::format("{}", state.step);
  if (state.windows > 1) {
    metadata["window"] = fmt::format("{}", state.window),
    metadata["windows"] = fmt::format("{}", state.windows);
    metadata["frames"] = fmt::format("{}", state.frames);
  }
  if (!state.motion.empty()) add("motion", state.motion);
  write_safetensors(path, std::move(tensors), metadata);
}

SavedRun read_run_state(const std::filesystem::path& path) {
  const auto source = open_safetensors(path);
  SavedRun out;
  out.about = source->metadata();
  const auto number = [&](const char* key) {
    const std::string text = out.about.contains(key) ? out.about[key] : "";
    check(!text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos &&
              out.about["format"] == kStateFormat,
          ErrorCode::corrupt, "{}: this is not the state of a run of this version", path.string());
    return std::stoll(text);
  };
  out.state.step = number("step");
  if (out.about.contains("windows"))
    out.state.window = number("window"), out.state.windows = number("windows"),
    out.state.frames = number("frames");
  if (source->has("motion")) out.state.motion = floats(*source, entry_of(*source, "motion"));
  out.state.latents = floats(*source, entry_of(*source, "latents"));
  for (size_t i = 0; i < 8 && source->has(fmt::format("solver.{}", i)); ++i)
    out.state.solver.push_back(floats(*source, entry_of(*source, fmt::format("solver.{}", i))));
  const TensorSource::Entry& generator = entry_of(*source, "generator");
  const auto* bytes = static_cast<const uint8_t*>(generator.data);
  out.state.generator.assign(bytes, bytes + generator.bytes);
  return out;
}

}  // namespace tachy
