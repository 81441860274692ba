// The tiny image-to-video models of tests/golden/image_pipeline, their pictures and requests.
#pragma once

#include "media/picture/image_reader.h"
#include "tiny_model.h"

namespace tachy::test {

inline std::string image_file(const std::string& name) { return golden_path("image_pipeline/" + name); }

inline std::shared_ptr<const Picture> picture(const std::string& file, const VideoRequest& r) {
  const RgbFrame whole = read_image(file);
  RgbFrame frame = r.image_fit == "crop" ? resize_crop(whole.view(), *r.width, *r.height)
                                         : resize(whole.view(), *r.width, *r.height);
  return std::make_shared<Picture>(Picture{frame.width, frame.height, std::move(frame.rgb)});
}

inline std::shared_ptr<const ImageEmbeds> embeds(const std::string& file) {
  const GoldenFile source("image_pipeline/" + file);
  const Tensor t = source["image_embeds"];
  return std::make_shared<ImageEmbeds>(ImageEmbeds{values_of(t), {t.shape().begin(), t.shape().end()}});
}

// A run of tests/golden/image_pipeline/runs.json.
struct ImageRun {
  std::string model;
  VideoRequest request;
};

inline ImageRun image_run(const std::string& name) {
  const auto file = read_json(image_file("runs.json"));
  const auto &j = file.at("runs").at(name), &common = file.at("common");
  ImageRun out;
  const auto model = j.at("case").get<std::string>();
  out.model = image_file(model);
  VideoRequest& r = out.request;
  r.prompt = common.at("prompt").get<std::string>();
  r.negative_prompt = common.at("negative_prompt").get<std::string>();
  r.frames = common.at("num_frames").get<int>(), r.guidance = common.at("guidance_scale").get<double>();
  r.shift = common.at("flow_shift").get<double>();
  r.width = j.at("width").get<int>(), r.height = j.at("height").get<int>();
  r.sampler = j.at("sampler").get<std::string>(), r.steps = j.at("num_inference_steps").get<int>();
  r.seed = j.at("seed").get<uint64_t>();
  if (j.contains("fit")) r.image_fit = j.at("fit").get<std::string>();
  r.image = picture(image_file("first.png"), r);
  if (j.contains("last")) r.last_image = picture(image_file("last.png"), r);
  if (j.contains("clip")) return out;  // made from the pictures alone
  if (model == "i2v") r.image_embeds = embeds("embeds.safetensors");
  if (model == "flf2v") r.image_embeds = embeds("embeds_pair.safetensors");
  return out;
}

inline const std::vector<std::string>& image_runs() {
  static const std::vector<std::string> names{"ti2v_unipc",  "ti2v_euler",  "ti2v_crop", "i2v_unipc",
                                              "flf2v_euler", "i2v22_unipc", "i2v22_last"};
  return names;
}

}  // namespace tachy::test
