// Graphs that a job cannot express are refused, and the message names the node and its input.
#include "graph_case.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Change {
  const char *graph, *node, *input;
  json value;
  const char* says;
};

TEST(Refusals, NameTheNodeAndTheInput) {
  const Change changes[] = {
      {"api_text", "8", "denoise", 0.6, "node 8 KSampler, denoise: "},
      {"api_text", "8", "cfg", 0.5, "node 8 KSampler, cfg: "},
      {"api_text", "8", "cfg", "x", "node 8 KSampler, cfg: expected a number from 0 to 100, got \"x\""},
      {"api_text", "8", "cfg", nullptr, "node 8 KSampler, cfg: "},
      {"api_text", "8", "steps", 0, "node 8 KSampler, steps: expected a whole number from 1 to 1000, got 0"},
      {"api_text", "8", "steps", 1e300, "node 8 KSampler, steps: "},
      {"api_text", "8", "steps", 2.5, "node 8 KSampler, steps: "},
      {"api_text", "8", "steps", json::array({1, 2, 3}), "node 8 KSampler, steps: "},
      {"api_text", "8", "seed", -1, "node 8 KSampler, seed: "},
      {"api_text", "8", "sampler_name", "heun", "node 8 KSampler, sampler_name: expected euler"},
      {"api_text", "8", "scheduler", "beta",
       "node 8 KSampler, scheduler: expected simple or normal, got 'beta'"},
      {"api_text", "8", "model", json::array({"9", 0}), "node 9 VAELoader: "},
      {"api_text", "8", "latent_image", json::array({"8", 0}), "node 8 KSampler: "},
      {"api_text", "2", "model", json::array({"3", 0}), "more than 200 nodes"},
      {"api_text", "2", "strength_model", 101, "node 2 LoraLoaderModelOnly, strength_model: "},
      {"api_text", "3", "shift", 0, "node 3 ModelSamplingSD3, shift: "},
      {"api_text", "4", "type", "flux", "node 4 CLIPLoader, type: expected wan, got 'flux'"},
      {"api_text", "5", "text", "a (red) circle", "node 5 CLIPTextEncode, text: text in parentheses"},
      {"api_text", "5", "text", "embedding:x", "node 5 CLIPTextEncode, text: embeddings"},
      {"api_text", "5", "text", 5, "node 5 CLIPTextEncode, text: expected a text, got 5"},
      {"api_text", "7", "batch_size", 2, "node 7 EmptyHunyuanLatentVideo, batch_size: "},
      {"api_text", "7", "width", 1 << 20, "node 7 EmptyHunyuanLatentVideo, width: "},
      {"api_text", "11", "audio", json::array({"9", 0}), "node 11 CreateVideo, audio: "},
      {"api_text", "13", "codec", "av1", "node 13 SaveVideo, codec: expected auto or h264, got 'av1'"},
      {"api_pictures", "23", "image", json::array({"20", 0}), "node 23 CLIPVisionEncode, image: "},
      {"api_pictures", "23", "crop", "center", "node 23 CLIPVisionEncode, crop: "},
      {"api_pictures", "8", "negative", json::array({"7", 0}), "node 7 WanFirstLastFrameToVideo: "},
      {"api_vace", "7", "control_video", json::array({"20", 0}), "node 20 LoadImage: "},
      {"api_vace", "7", "control_video", json::array({"31", 1}), "node 31 GetVideoComponents: "},
      {"api_vace", "7", "control_masks", json::array({"20", 1}), "node 20 LoadImage: "},
      {"api_vace", "7", "control_video", nullptr, "node 7 WanVaceToVideo, control_masks: "},
      {"api_vace", "7", "strength", -1, "node 7 WanVaceToVideo, strength: "},
      {"api_vace", "34", "channel", "alpha", "node 34 ImageToMask, channel: "},
      {"api_vace", "35", "trim_amount", 2, "node 35 TrimVideoLatent, trim_amount: "},
      {"api_vace", "10", "samples", json::array({"8", 0}), "node 7 WanVaceToVideo, reference_image: "},
      {"api_text", "10", "samples", json::array({"10", 0}), "node 10 VAEDecode: "},
      {"api_experts", "8", "start_at_step", 4, "node 8 KSamplerAdvanced, start_at_step: expected 3"},
      {"api_experts", "8", "end_at_step", 6, "node 8 KSamplerAdvanced, end_at_step: "},
      {"api_experts", "8", "steps", 9, "node 8 KSamplerAdvanced, steps: expected 8"},
      {"api_experts", "8", "add_noise", "enable", "node 8 KSamplerAdvanced, add_noise: "},
      {"api_experts", "8", "positive", json::array({"6", 0}), "node 8 KSamplerAdvanced, positive: "},
      {"api_experts", "33", "shift", 5.0, "node 8 KSamplerAdvanced, model: both experts must have one shift"},
      {"api_experts", "30", "sampler_name", "lcm", "node 8 KSamplerAdvanced, sampler_name: "},
  };
  for (const Change& change : changes) {
    json file = graph_file(change.graph);
    file[change.node]["inputs"][change.input] = change.value;
    const Refused refused = refusal(file);
    EXPECT_EQ(refused.code, ErrorCode::unsupported) << change.says << refused.message;
    EXPECT_THAT(refused.message, HasSubstr(change.says));
  }
}

TEST(Refusals, OtherNodesAreNamed) {
  json file = graph_file("api_text");
  file["3"]["class_type"] = "ModelSamplingFlux";
  EXPECT_THAT(refusal(file).message, HasSubstr("node 3 ModelSamplingFlux: no node of this kind"));
  file = graph_file("api_text");
  file["50"] = {
      {"class_type", "SaveWEBM"},
      {"inputs",
       {{"images", {"10", 0}}, {"codec", "vp9"}, {"fps", 12.0}, {"crf", 30}, {"filename_prefix", "x"}}}};
  EXPECT_THAT(refusal(file).message, HasSubstr("a job makes one video"));
  file["50"]["inputs"]["fps"] = 16.0;
  EXPECT_EQ(imported(file).settings.encoding.format, "webm") << "one video may be saved twice";
}

TEST(Refusals, WhatIsNoGraphIsCorrupt) {
  for (const char* text :
       {"[]", "{}", "5", R"({"nodes": 5})", R"({"nodes": [{"id": 1}]})", R"({"nodes": [5]})",
        R"({"1": {"class_type": 5}})", R"({"1": {"class_type": "KSampler", "inputs": 5}})",
        R"({"1": {"class_type": "KSampler", "inputs": {"model": ["2", 0]}}})",
        R"({"1": {"class_type": "KSampler", "inputs": {"model": ["1", -1]}}})",
        R"({"nodes": [{"id": 1, "type": "VAEDecode", "inputs": [{"name": "vae", "link": 5}]}], "links": []})",
        R"({"nodes": [], "links": [[1]]})"})
    EXPECT_EQ(refusal(json::parse(text)).code, ErrorCode::corrupt) << text;
}

}  // namespace
}  // namespace tachy::test
