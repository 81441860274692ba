// The tiny VACE models of tests/golden/vace, together with the other parts of tests/golden/pipeline, and the
// requests of its runs.
#pragma once

#include <fstream>

#include "../pipelines/tiny_model.h"
#include "api/tachyscope.h"

namespace tachy::test {

inline std::string vace_file(const std::string& name) { return golden_path("vace/" + name); }

// `kase` is one, two or v2v.
inline std::string vace_model(const std::string& kase) {
  namespace fs = std::filesystem;
  if (kase == "v2v") return model_path();
  static const ScratchFolder scratch;
  const fs::path folder = scratch.path / kase;
  if (fs::exists(folder)) return folder.string();
  fs::copy(model_path(), folder, fs::copy_options::recursive);
  fs::remove_all(folder / "transformer"), fs::remove(folder / "generation_config.json");
  fs::copy(vace_file(kase), folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  return folder.string();
}

struct VaceRun {
  std::string model;
  VideoRequest request;
};

inline VaceRun vace_run(const std::string& name) {
  const auto file = read_json(vace_file("runs.json"));
  const auto &j = file.at("runs").at(name), &common = file.at("common");
  const auto kase = j.at("case").get<std::string>();
  VaceRun out{.model = vace_model(kase), .request = {}};
  VideoRequest& r = out.request;
  r.prompt = common.at("prompt").get<std::string>();
  r.negative_prompt = common.at("negative_prompt").get<std::string>();
  r.frames = common.at("num_frames").get<int>(), r.shift = common.at("flow_shift").get<double>();
  r.width = common.at("width").get<int>(), r.height = common.at("height").get<int>();
  r.sampler = j.at("sampler").get<std::string>(), r.steps = j.at("num_inference_steps").get<int>();
  r.guidance = j.at("guidance_scale").get<double>(), r.seed = j.at("seed").get<uint64_t>();
  if (j.contains("guidance_scale_2")) r.guidance_2 = j.at("guidance_scale_2").get<double>();
  const auto footage = [](const char* name) {
    return std::make_shared<Footage>(read_footage(vace_file(name)));
  };
  const auto picture = [](const char* name) {
    return std::make_shared<Picture>(read_picture(vace_file(name)));
  };
  if (kase == "v2v") {
    r.video = footage("control"), r.strength = j.at("strength").get<double>();
    if (j.contains("mask")) r.mask_video = footage("mask");
    return out;
  }
  if (j.contains("control")) r.control_video = footage("control");
  if (j.contains("mask")) r.mask_video = footage("mask");
  const int references = j.value("references", 0);
  if (references >= 1) r.reference = picture("reference_1.png");
  if (references >= 2) r.reference_2 = picture("reference_2.png");
  if (j.contains("first")) r.image = picture("first.png");
  if (j.contains("last")) r.last_image = picture("last.png");
  if (j.contains("scale"))
    r.vace_strength = fmt::format("{}", fmt::join(j.at("scale").get<std::vector<double>>(), ","));
  if (j.contains("outpaint"))
    r.outpaint = fmt::format("{}", fmt::join(j.at("outpaint").get<std::vector<int>>(), ","));
  if (j.contains("keep")) r.keep = fmt::format("{}", fmt::join(j.at("keep").get<std::vector<int>>(), "-"));
  return out;
}

inline Result run(Engine& engine, const VideoRequest& request, VideoCallbacks callbacks = {},
                  const RunState* resume = nullptr) {
  Result out;
  engine.generate(engine.prepare(request), collecting(out, std::move(callbacks)), resume);
  return out;
}

}  // namespace tachy::test
