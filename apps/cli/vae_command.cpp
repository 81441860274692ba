// `tachyscope vae encode|decode` turns a picture or a video into latents in a file, and back.

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "api/tachyscope.h"
#include "api/vae.h"
#include "base/env.h"
#include "base/json_text.h"
#include "base/log.h"
#include "commands.h"
#include "gauge_options.h"
#include "generate_options.h"
#include "jobs/claimed_output.h"
#include "jobs/settings_encoding.h"
#include "jobs/settings_environment.h"
#include "media/files.h"
#include "media/picture/image_reader.h"
#include "media/video/background_writer.h"
#include "media/video/video_reader.h"
#include "progress.h"
#include "say.h"
#include "status_line.h"
#include "vae_input.h"

namespace tachy::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kFps = 16;  // for pictures, and for files that do not state a rate

// Returns everything that the numbers depend on, for the output file.
std::string settings_of(const VaeCommand& o, const std::string& device) {
  const bool on_gpu = device != "cpu";
  json out = {{"vae", o.what}, {"version", version()}, {"model", o.model}, {"input", o.input}};
  out["device"] = on_gpu ? "cuda" : "cpu";
  if (!o.dtype.empty()) out["dtype"] = o.dtype;
  if (o.vae_math != "auto") out["vae_math"] = o.vae_math;
  if (o.what == "encode")
    out["image_fit"] = o.image_fit;
  else
    jobs::add_encoding(out, jobs::encoding_of(o.output, o.crf, o.encode_speed, {}));
  jobs::add_environment(out, on_gpu);
  return json_line(out);
}

Vae open_vae(const VaeCommand& o, const std::string& device, bool raw, ProgressLine& progress) {
  VaeOptions options{.threads = o.threads,
                     .device = device,
                     .dtype = o.dtype,
                     .vae_math = o.vae_math,
                     .raw = raw,
                     .cancel = &g_cancel,
                     .progress = [&progress](const Progress& p) { progress.update(p); }};
  const fs::path model = o.model.empty() ? shipped_model() : fs::path(o.model);
  return naming("`model`", [&] { return Vae(model, std::move(options)); });
}

void report(const VaeCommand& o, const json& event, const std::string& text) {
  if (o.json)
    say(stdout, json_line(event) + "\n");
  else if (!o.quiet)
    say(stdout, text + "\n");
}

int encode(const VaeCommand& o) {
  check(fs::path(o.output).extension() == ".safetensors", ErrorCode::unsupported,
        "--output: latents are written as .safetensors, got {}", o.output);
  ProgressLine progress(ProgressLine::choose(o.json, o.quiet));
  const std::string device = choose_device(o.device);
  const Vae vae = open_vae(o, device, o.raw, progress);
  const auto reader = VideoReader::open(o.input);
  const VideoInfo info = reader->info();
  Vae::Clip clip;
  choose_size(o, info, static_cast<int>(vae.spatial_stride()), clip);
  clip.frames = choose_frames(o, info, vae.temporal_stride());
  const jobs::ClaimedOutput claimed = naming("--output", [&] { return jobs::ClaimedOutput(o.output); });
  check_writable("--output", o.output);
  RgbFrame frame;
  int64_t read = 0;
  const Vae::Latents latents = vae.encode(clip, [&](std::span<uint8_t> rgb) {
    check(reader->read(frame), ErrorCode::corrupt,
          "{}: it ends after {}, but {} were asked for; --frames {} uses those", o.input,
          count_of(read, "frame"), clip.frames, std::max<int64_t>(read, 1));
    ++read;
    const int width = static_cast<int>(clip.width), height = static_cast<int>(clip.height);
    if (frame.width != width || frame.height != height)
      frame = o.image_fit == "crop" ? resize_crop(frame.view(), width, height)
                                    : resize(frame.view(), width, height);
    std::copy(frame.rgb.begin(), frame.rgb.end(), rgb.begin());
  });
  const double fps = o.fps.value_or(info.fps > 0 ? info.fps : kFps);
  write_latents(o.output, latents.values, latents.shape,
                {{"format", "tachyscope latents 1"},
                 {"kind", vae.kind()},
                 {"settings", settings_of(o, device)},
                 {"scale", o.raw ? "raw" : "normalised"},
                 {"fps", fmt::format("{}", fps)},
                 {"width", fmt::format("{}", clip.width)},
                 {"height", fmt::format("{}", clip.height)},
                 {"frames", fmt::format("{}", clip.frames)}});
  progress.clear();
  report(o, {{"event", "done"}, {"output", o.output}, {"shape", latents.shape}, {"fps", fps}},
         fmt::format("{} ({} of {}x{} as latents [{}])", o.output, count_of(clip.frames, "frame"), clip.width,
                     clip.height, fmt::join(latents.shape, ", ")));
  return 0;
}

std::string about(const LatentFile& file, const char* key) {
  const auto it = file.about.find(key);
  return it == file.about.end() ? "" : it->second;
}

double fps_of(const VaeCommand& o, const LatentFile& file) {
  if (o.fps) return *o.fps;
  const std::string text = about(file, "fps");
  double fps = kFps;
  if (text.empty()) return fps;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fps);
  check(error == std::errc() && end == text.data() + text.size() && fps > 0 && fps <= 1000,
        ErrorCode::corrupt, "{}: its fps is '{}', expected a number above 0 to 1000; --fps gives another",
        o.input, text);
  return fps;
}

// Says whether the file's latents are on the VAE's own scale, according to the file or to --raw.
bool is_raw(const VaeCommand& o, const LatentFile& file) {
  const std::string scale = about(file, "scale");
  if (scale.empty()) return o.raw;
  check(scale == "raw" || scale == "normalised", ErrorCode::corrupt,
        "{}: its scale is '{}', expected raw or normalised", o.input, scale);
  require(!o.raw || scale == "raw", "--raw: {} says that its latents are normalised; leave --raw out",
          o.input);
  return scale == "raw";
}

int decode(const VaeCommand& o) {
  require(o.size.empty() && !o.frames, "{}: the latents say that themselves; leave it out for decode",
          o.size.empty() ? "--frames" : "--size");
  video_format(o.output);
  const LatentFile file = read_latents(o.input);
  ProgressLine progress(ProgressLine::choose(o.json, o.quiet));
  const std::string device = choose_device(o.device);
  const Vae vae = open_vae(o, device, is_raw(o, file), progress);
  naming(o.input, [&] {
    const std::string kind = about(file, "kind");
    require(kind.empty() || kind == vae.kind(), "its latents are for a VAE of {}, but `model` has one of {}",
            kind, vae.kind());
    vae.check_latents(file.values, file.shape);
  });
  const int64_t s = vae.spatial_stride(), frames = vae.frames_of(file.shape[1]);
  const auto height = static_cast<int>(file.shape[2] * s), width = static_cast<int>(file.shape[3] * s);
  const VideoOptions video{.fps = fps_of(o, file),
                           .crf = o.crf,
                           .comment = settings_of(o, device),
                           .speed = o.encode_speed,
                           .expected_frames = frames,
                           .cancel = &g_cancel};
  const jobs::ClaimedOutput claimed = naming("--output", [&] { return jobs::ClaimedOutput(o.output); });
  BackgroundWriter writer(
      naming("--output", [&] { return VideoWriter::open(o.output, width, height, video); }), &g_cancel);
  vae.decode(file.values, file.shape, [&](const RgbImage& image, int64_t) {
    writer.write({image.rgb.data(), image.width, image.height, int64_t{image.width} * 3});
  });
  writer.finish();
  progress.clear();
  report(o,
         {{"event", "done"}, {"output", o.output}, {"frames", frames}, {"width", width}, {"height", height}},
         fmt::format("{} ({} of {}x{})", o.output, count_of(frames, "frame"), width, height));
  return 0;
}

int run_vae(const VaeCommand& o) {
  set_quiet(o.quiet);
  check_choice("image_fit", o.image_fit, {"stretch", "crop"});
  check_allowed("vae_math", o.vae_math, find_field(request_fields(), "vae_math")->allowed);
  if (o.fps) check_range("fps", *o.fps, Range{.least = 0, .most = 1000, .above = true});
  return o.what == "encode" ? encode(o) : decode(o);
}

}  // namespace

Command add_vae(CommandLine& line) {
  CommandOptions sub =
      line.add_command("vae", "turn a picture or a video into a file of latents, or latents into a video");
  auto o = std::make_shared<VaeCommand>();
  sub.add_option("what", o->what, "encode or decode")->required()->check(one_of({"encode", "decode"}));
  sub.add_option("input", o->input,
                 "encode: a picture, a video, a folder of pictures or a pattern such as in_%04d.png; decode: "
                 "latents (.safetensors)")
      ->required();
  sub.add_option("-o,--output", o->output,
                 "file to write; encode: .safetensors; decode: .mp4, .webm, .gif, .png (a single frame), "
                 "name_%04d.png or folder/")
      ->required();
  sub.add_option("-m,--model", o->model,
                 "model's folder, or its VAE's folder or file (default: the one that ships with Tachyscope)");
  sub.add_option(
      "--size", o->size,
      "encode: width and height that the frames are fitted to, such as 832x480 (default: their own)");
  sub.add_option(
      "-f,--frames,--num-frames", o->frames,
      "encode: number of frames to read from the start, cut to a multiple of 4 plus 1 (default: all)");
  sub.add_option("--image-fit", o->image_fit,
                 "encode: how frames are fitted to --size: stretch (default) or crop");
  sub.add_flag("--raw", o->raw,
               "write or read latents on the VAE's own scale (default: normalised, as the denoiser sees "
               "them); decode goes by what the file says, if it says");
  sub.add_option("--fps", o->fps, "frames per second (default: what the input says, otherwise 16)");
  sub.add_option("--crf", o->crf,
                 "decode: quality of mp4 (0 to 51, default 16) and webm (0 to 63, default 24): lower is "
                 "better, 0 is lossless");
  sub.add_option(
      "--encode-speed", o->encode_speed,
      "decode: speed of encoding mp4 and webm, by x264's names: ultrafast to veryslow (default veryfast)");
  sub.add_option("--device", o->device, kDeviceHelp);
  sub.add_option("--dtype,--precision", o->dtype,
                 "precision of matrix products: f32 or bf16; on a GPU of the activations: f32, f16 or bf16");
  register_vae_math(sub, o->vae_math);
  sub.add_option("-t,--threads", o->threads, "number of threads (default: all that this process may use)")
      ->check(between(0, 1024));
  sub.add_flag("--json", o->json, "print JSON lines instead of text");
  sub.add_flag("-q,--quiet", o->quiet, "print nothing but errors");
  sub.footer(
      "The file of latents holds one tensor, latents [z, T, h, w] in float32, and says which VAE it is for,\n"
      "its fps and its size. `generate --init-latents` reads such a file, `--save-latents` writes one.\n"
      "Examples:\n"
      "  tachyscope vae encode clip.mp4 -o clip.safetensors --size 832x480 --model "
      "Wan2.1-T2V-1.3B-Diffusers\n"
      "  tachyscope vae decode clip.safetensors -o again.mp4 --model Wan2.1-T2V-1.3B-Diffusers\n"
      "  tachyscope vae decode clip.safetensors -o frames/");
  return [o] { return run_vae(*o); };
}

}  // namespace tachy::cli
