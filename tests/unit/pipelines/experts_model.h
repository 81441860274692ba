// The tiny models with two experts of tests/golden/experts, together with the text encoder, the tokenizer and
// the VAE of tests/golden/pipeline, laid out as in diffusers' repository or in the original one.
#pragma once

#include <fstream>

#include "image_model.h"

namespace tachy::test {

namespace experts_impl {
inline void copy(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}
}  // namespace experts_impl

// `kase` is t2v or i2v.
inline std::filesystem::path make_experts(const std::filesystem::path& folder, const std::string& kase,
                                          bool original) {
  namespace fs = std::filesystem;
  const fs::path golden = golden_path("experts/" + kase);
  experts_impl::copy(model_path(original), folder);
  if (original) {
    fs::remove(folder / "config.json"), fs::remove(folder / "diffusion_pytorch_model.safetensors");
    for (const char* part : {"high_noise_model", "low_noise_model"})
      experts_impl::copy(golden / "original" / part, folder / part);
    return folder;
  }
  fs::remove_all(folder / "transformer"), fs::remove(folder / "model_index.json");
  fs::remove(folder / "generation_config.json");
  experts_impl::copy(golden / "diffusers" / "model_index.json", folder / "model_index.json");
  for (const char* part : {"transformer", "transformer_2"})
    experts_impl::copy(golden / "diffusers" / part, folder / part);
  return folder;
}

inline const std::string& experts_model(const std::string& kase, bool original = false) {
  static const ScratchFolder scratch;
  static std::map<std::pair<std::string, bool>, std::string> made;
  std::string& path = made[{kase, original}];
  if (path.empty())
    path = make_experts(scratch.path / (kase + (original ? "-original" : "")), kase, original).string();
  return path;
}

// A run of tests/golden/experts/runs.json.
struct ExpertsRun {
  std::string model;
  VideoRequest request;
  int high_noise_steps = 0;
};

inline ExpertsRun experts_run(const std::string& name) {
  const auto file = read_json(golden_path("experts/runs.json"));
  const auto &j = file.at("runs").at(name), &common = file.at("common");
  const auto kase = j.at("case").get<std::string>();
  ExpertsRun out{experts_model(kase, name.ends_with("original")), {}, j.at("high_noise_steps").get<int>()};
  VideoRequest& r = out.request;
  r.prompt = common.at("prompt").get<std::string>();
  r.negative_prompt = common.at("negative_prompt").get<std::string>();
  r.frames = common.at("num_frames").get<int>();
  r.width = common.at("width").get<int>(), r.height = common.at("height").get<int>();
  r.sampler = j.at("sampler").get<std::string>(), r.steps = j.at("num_inference_steps").get<int>();
  r.shift = j.at("flow_shift").get<double>(), r.seed = j.at("seed").get<uint64_t>();
  r.guidance = j.at("guidance_scale").get<double>(), r.guidance_2 = j.at("guidance_scale_2").get<double>();
  if (kase == "i2v") r.image = picture(image_file("first.png"), r);
  return out;
}

}  // namespace tachy::test
