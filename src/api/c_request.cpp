#include "api/c_request.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "api/c_fields.h"
#include "base/sha256.h"
#include "media/sound/resampler.h"
#include "media/sound/sound_mix.h"

namespace tachy {
namespace {

constexpr int32_t kMostPixels = 1 << 14;  // of a picture's side
constexpr int64_t kMostNumbers = int64_t{1} << 31;
constexpr int64_t kMostSeconds = 7200;
constexpr int32_t kMostAdapters = 64;
constexpr size_t kOldRequest = offsetof(tachyscope_request_v2, video);  // the struct before videos were added

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

// Converts the inputs of one request.
class Inputs {
 public:
  explicit Inputs(CRequest& out) : out_(out) {}

  void take(const char* field, const tachyscope_picture* in, std::shared_ptr<const Picture>& to) {
    if (!in) return;
    if (in->path) {
      const std::string path = file(field, in->path);
      to = std::make_shared<const Picture>(naming(quoted(field), [&] { return read_picture(path); }));
      return;
    }
    const int32_t w = in->width, h = in->height;
    require(in->rgb && w >= 1 && h >= 1 && w <= kMostPixels && h <= kMostPixels,
            "`{}`: expected a file, or a picture with sides of 1 to {} pixels, got {}x{}{}", field,
            kMostPixels, w, h, in->rgb ? "" : " at a null pointer");
    const size_t bytes = size_t{3} * static_cast<size_t>(w) * static_cast<size_t>(h);
    to = std::make_shared<const Picture>(Picture{w, h, std::vector<uint8_t>(in->rgb, in->rgb + bytes)});
  }

  void take(const char* field, const tachyscope_sound* in, Sound& sound, std::shared_ptr<const Speech>& to) {
    if (!in) return;
    if (in->path) file(field, in->path);
    sound = convert_sound(field, *in);
    to = std::make_shared<const Speech>(Speech{resample(sound.samples, sound.rate, kSpeechRate)});
  }

  void take(const char* field, const char* path, std::shared_ptr<const Footage>& to) {
    if (!path) return;
    const std::string name = c_text(field, path);
    out_.files[field] = {name, sha256_of_footage(name, field)};
    to = std::make_shared<const Footage>(naming(quoted(field), [&] { return read_footage(name); }));
  }

  void latents(const tachyscope_tensor* in) {
    if (!in) return;
    if (!in->path) {
      out_.request.init_latents = numbers("init_latents", *in).values;
      return;
    }
    const std::string path = file("init_latents", in->path);
    LatentFile read = naming("`init_latents`", [&] { return read_latents(path); });
    const auto scale = read.about.find("scale");
    require(scale == read.about.end() || scale->second != "raw",
            "`init_latents`: {}: its latents are on the VAE's own scale, and normalised ones are needed",
            in->path);
    out_.request.init_latents = std::move(read.values);
  }

  void embeds(const tachyscope_tensor* in) {
    if (!in) return;
    out_.request.image_embeds = std::make_shared<const ImageEmbeds>(
        in->path ? naming("`image_embeds`", [&] { return read_image_embeds(file("image_embeds", in->path)); })
                 : numbers("image_embeds", *in));
  }

 private:
  static std::string quoted(const char* field) { return fmt::format("`{}`", field); }
  std::string file(const char* field, const char* path) {
    std::string name = c_text(field, path);
    out_.files[field] = {name, sha256_of_file(name, field)};
    return name;
  }

  static ImageEmbeds numbers(const char* field, const tachyscope_tensor& in) {
    require(in.values && in.shape && in.dims >= 1 && in.dims <= 8,
            "`{}`: expected a file, or values of a shape with 1 to 8 sides", field);
    int64_t count = 1;
    for (int32_t i = 0; i < in.dims; ++i) {
      require(in.shape[i] >= 1 && in.shape[i] <= kMostNumbers / count,
              "`{}`: expected a shape of 1 to {} numbers, got {} as side {}", field, kMostNumbers,
              in.shape[i], i);
      count *= in.shape[i];
    }
    ImageEmbeds out{{in.values, in.values + count}, {in.shape, in.shape + in.dims}};
    require(all_finite(out.values), "`{}`: NaN or Inf is among its values", field);
    return out;
  }

  CRequest& out_;
};

// Takes a member where zero means the model's own value.
template <class Number, class T>
void take_number(const char* field, Number value, std::optional<T>& to) {
  require(value >= 0, "`{}`: expected a number from 0 (the model's own) on, got {}", field, value);
  if (value > 0) to = value;
}

void take_settings(const tachyscope_request_v2& in, VideoRequest& out) {
  out.prompt = c_text("prompt", in.prompt);
  if (in.negative_prompt) out.negative_prompt = c_text("negative_prompt", in.negative_prompt);
  if (in.preset) out.preset = c_text("preset", in.preset);
  take_number("width", in.width, out.width), take_number("height", in.height, out.height);
  take_number("frames", in.frames, out.frames), take_number("steps", in.steps, out.steps);
  take_number("guidance", in.guidance, out.guidance);
  take_number("guidance_2", in.guidance_2, out.guidance_2);
  take_number("shift", in.shift, out.shift);
  out.seed = in.seed;
  require(in.lora_count <= kMostAdapters, "`loras`: expected 0 to {}, got {}", kMostAdapters, in.lora_count);
  for (const char* lora : c_span("loras", in.loras, in.lora_count)) {
    require(lora != nullptr, "`loras`: entry {} is null", out.loras.size());
    out.loras.push_back(c_text("loras", lora));
  }
  set_fields(out, c_span("settings", in.settings, in.setting_count));
}

}  // namespace

Sound convert_sound(const char* field, const tachyscope_sound& in) {
  if (in.path) return naming(fmt::format("`{}`", field), [&] { return read_sound(c_text(field, in.path)); });
  require(in.rate >= kMinSampleRate && in.rate <= kMaxSampleRate,
          "`{}`: expected a rate of {} to {} Hz, got {}", field, kMinSampleRate, kMaxSampleRate, in.rate);
  require(in.samples && in.count >= 1 && in.count <= kMostSeconds * in.rate,
          "`{}`: expected a file, or samples of at most {} seconds, got {}{}", field, kMostSeconds, in.count,
          in.samples ? "" : " at a null pointer");
  Sound out{.rate = in.rate, .channels = 1, .codec = "", .samples = {in.samples, in.samples + in.count}};
  require(all_finite(out.samples), "`{}`: NaN or Inf is among its samples", field);
  return out;
}

CRequest convert_request(const tachyscope_request_v2* in) {
  require(in != nullptr, "request: it must not be null");
  check_c_size("request", in, in->size, sizeof(tachyscope_request_v2), kOldRequest);
  tachyscope_request_v2 whole = {};
  std::memcpy(&whole, in, std::min(sizeof whole, static_cast<size_t>(in->size)));
  in = &whole;
  require(in->prompt != nullptr, "`prompt`: it must not be null");
  CRequest out;
  VideoRequest& request = out.request;
  take_settings(*in, request);
  Inputs inputs(out);
  inputs.take("image", in->image, request.image);
  inputs.take("last_image", in->last_image, request.last_image);
  inputs.take("speaker_mask", in->speaker_mask, request.speaker_mask);
  inputs.take("speaker_mask_2", in->speaker_mask_2, request.speaker_mask_2);
  inputs.take("speech", in->speech, out.sounds[0], request.speech);
  inputs.take("speech_2", in->speech_2, out.sounds[1], request.speech_2);
  inputs.take("video", in->video, request.video);
  inputs.take("control_video", in->control_video, request.control_video);
  inputs.take("mask_video", in->mask_video, request.mask_video);
  inputs.take("reference", in->reference, request.reference);
  inputs.take("reference_2", in->reference_2, request.reference_2);
  inputs.take("reference_3", in->reference_3, request.reference_3);
  inputs.take("reference_4", in->reference_4, request.reference_4);
  inputs.latents(in->init_latents);
  inputs.embeds(in->image_embeds);
  return out;
}

Sound sound_of_video(const Sound (&sounds)[2], bool in_turn, double seconds) {
  Sound out = sounds[1].samples.empty() ? sounds[0] : mixed(sounds[0], sounds[1], in_turn);
  const auto most = static_cast<size_t>(std::ceil(seconds * out.rate));
  if (out.samples.size() > most) out.samples.resize(most);
  return out;
}

}  // namespace tachy
