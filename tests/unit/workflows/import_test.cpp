// Graphs in ComfyUI's API format become the settings of a job.
#include "graph_case.h"

namespace tachy::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Import, AVideoFromText) {
  const workflows::Imported got = imported(graph_file("api_text"));
  const VideoRequest& r = got.settings.request;
  EXPECT_EQ(r.prompt, "a red (round) circle");
  EXPECT_EQ(r.negative_prompt, "blurred");
  EXPECT_EQ(r.width, 64);
  EXPECT_EQ(r.height, 48);
  EXPECT_EQ(r.frames, 5) << "ComfyUI makes of 7 two latent frames";
  EXPECT_EQ(r.fps, 16);
  EXPECT_EQ(r.steps, 4);
  EXPECT_EQ(r.guidance, 5);
  EXPECT_EQ(r.shift, 3);
  EXPECT_EQ(r.seed, UINT64_MAX);
  EXPECT_EQ(r.sampler, "euler");
  EXPECT_EQ(r.grid, "comfyui");
  EXPECT_EQ(r.sinusoid, "diffusers");
  EXPECT_EQ(r.high_noise_steps, std::nullopt);
  EXPECT_THAT(r.loras, ElementsAre("lora/a.safetensors:0.5"));
  EXPECT_EQ(got.settings.model, "unet/wan/t2v.safetensors");
  EXPECT_EQ(got.settings.parts.at("text_encoder"), "text/umt5.safetensors");
  EXPECT_EQ(got.settings.parts.at("vae"), "vae/vae.safetensors");
  EXPECT_THAT(got.settings.inputs, IsEmpty());
  EXPECT_THAT(got.notes, IsEmpty());
}

TEST(Import, TheLastShiftCountsAndLorasAreAppliedFromTheLoaderOn) {
  json file = graph_file("api_text");
  file["40"] = {{"class_type", "LoraLoader"},
                {"inputs",
                 {{"model", {"2", 0}},
                  {"clip", {"4", 0}},
                  {"lora_name", "z.safetensors"},
                  {"strength_model", -1.5},
                  {"strength_clip", 1}}}};
  file["41"] = {{"class_type", "ModelSamplingSD3"}, {"inputs", {{"model", {"40", 0}}, {"shift", 9.0}}}};
  file["3"]["inputs"]["model"] = {"41", 0};
  file["5"]["inputs"]["clip"] = {"40", 1};
  const workflows::Imported got = imported(file);
  const VideoRequest& r = got.settings.request;
  EXPECT_THAT(got.notes, ElementsAre(HasSubstr("node 40 LoraLoader, strength_clip: ")));
  EXPECT_EQ(r.shift, 3);
  EXPECT_THAT(r.loras, ElementsAre("lora/a.safetensors:0.5", "lora/z.safetensors:-1.5"));
  file["8"]["inputs"]["model"] = {"40", 0};
  EXPECT_EQ(imported(file).settings.request.shift, 8) << "Wan's in ComfyUI";
  file["2"]["inputs"]["strength_model"] = 0;
  EXPECT_THAT(imported(file).settings.request.loras, ElementsAre("lora/z.safetensors:-1.5"));
}

TEST(Import, PicturesAtBothEnds) {
  const workflows::Imported got = imported(graph_file("api_pictures"));
  EXPECT_EQ(got.settings.inputs.at("image").path, "picture/first.png");
  EXPECT_EQ(got.settings.inputs.at("last_image").path, "picture/sub/last.png");
  EXPECT_EQ(got.settings.parts.at("image_encoder"), "clip/clip_vision_h.safetensors");
  EXPECT_EQ(got.settings.request.image_fit, "crop");
  EXPECT_EQ(got.settings.request.clip_preparation, "original") << "the whole picture";
  EXPECT_EQ(got.settings.request.fps, 24);
  EXPECT_EQ(got.settings.encoding.format, "webm");
  EXPECT_EQ(got.settings.encoding.crf, 30);
}

TEST(Import, AVideoThatFollowsAnother) {
  json file = graph_file("api_vace");
  const workflows::Imported got = imported(file);
  EXPECT_EQ(got.settings.inputs.at("control_video").path, "video/depth.mp4");
  EXPECT_EQ(got.settings.inputs.at("mask_video").path, "video/mask.mp4 [input]");
  EXPECT_EQ(got.settings.inputs.at("reference").path, "picture/dog.png");
  EXPECT_EQ(got.settings.request.vace_strength, "0.75");
  EXPECT_EQ(got.settings.request.image_fit, "crop");
  EXPECT_EQ(got.settings.request.frames, 9);
  EXPECT_EQ(got.settings.request.prompt, "a red (round) circle");
  EXPECT_THAT(got.notes,
              ElementsAre(HasSubstr("node 30 LoadVideo, file: "), HasSubstr("node 32 LoadVideo, file: "),
                          HasSubstr("node 7 WanVaceToVideo, reference_image: ")));
  for (const char* name : {"control_video", "control_masks", "reference_image"})
    file["7"]["inputs"].erase(name);
  file["7"]["inputs"]["strength"] = 1;
  const workflows::Imported free = imported(file);
  EXPECT_THAT(free.settings.inputs, IsEmpty()) << "the prompt alone says what is seen";
  EXPECT_EQ(free.settings.request.vace_strength, std::nullopt);
  file["10"]["inputs"]["samples"] = {"8", 0};
  EXPECT_THAT(imported(file).notes, IsEmpty()) << "there is nothing to cut off";
}

TEST(Import, TwoExperts) {
  const workflows::Imported got = imported(graph_file("api_experts"));
  const VideoRequest& r = got.settings.request;
  EXPECT_EQ(r.high_noise_steps, 3);
  EXPECT_EQ(r.steps, 8);
  EXPECT_EQ(r.seed, 7u);
  EXPECT_EQ(r.guidance, 4);
  EXPECT_EQ(r.guidance_2, 3);
  EXPECT_THAT(r.loras, ElementsAre("lora/a.safetensors:0.5@high", "lora/b.safetensors:1@low"));
  EXPECT_EQ(got.settings.model, "unet/wan/t2v.safetensors");
  EXPECT_EQ(got.settings.parts.at("transformer_2"), "unet/low.safetensors");
}

TEST(Import, SamplersThatAreNotComfyuisAreNoted) {
  json file = graph_file("api_text");
  const std::pair<const char*, const char*> names[] = {
      {"uni_pc", "unipc"}, {"dpmpp_2m", "dpm++"}, {"lcm", "lcm"}};
  for (const auto& [theirs, ours] : names) {
    file["8"]["inputs"]["sampler_name"] = theirs;
    const workflows::Imported got = imported(file);
    EXPECT_EQ(got.settings.request.sampler, ours);
    EXPECT_THAT(got.notes, ElementsAre(HasSubstr("node 8 KSampler, sampler_name: "))) << theirs;
  }
  file["8"]["inputs"]["scheduler"] = "normal";
  EXPECT_EQ(imported(file).settings.request.grid, "diffusers");
}

TEST(Import, WhatServersAreSentHasTheGraphInside) {
  EXPECT_EQ(imported({{"prompt", graph_file("api_text")}, {"client_id", "x"}}).settings.request.steps, 4);
}

}  // namespace
}  // namespace tachy::test
