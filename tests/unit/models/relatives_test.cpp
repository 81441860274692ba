// Models of Wan's family that need other inputs have all of Wan's tensors: they are refused by name, and a
// transformer's tensors that nothing reads are never ignored.
#include "models/wan/relatives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "shapes.h"

namespace tachy {
namespace {

using test::listed;
using test::Shapes;
using test::source_of;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal_of_class(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    return e.message();
  }
  return "(no error)";
}

std::string refusal_with(const std::string& tensor, const std::vector<int64_t>& dims = {4, 4}) {
  Shapes shapes = listed("dit_t2v_1_3b.txt");
  EXPECT_GT(shapes.size(), 800u);
  shapes[tensor] = dims;
  return refusal_of_class([&] { refuse_relatives(*source_of(shapes)); });
}

TEST(Relatives, AreRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"face_adapter.fuser_blocks.0.k_norm.weight", "Wan-Animate"},
      {"pose_patch_embedding.weight", "Wan-Animate"},
      {"casual_audio_encoder.encoder.final_linear.weight", "Wan-S2V"},
      {"trainable_cond_mask.weight", "Wan-S2V"},
      {"audio_proj.audio_proj_glob_1.layer.bias", "HuMo"},
      {"blocks.3.audio_cross_attn_wrapper.audio_cross_attn.q.weight", "HuMo"},
      {"control_adapter.conv.weight", "camera control"},
      {"ref_conv.weight", "Fun model with control"},
      {"fps_embedding.weight", "SkyReels"},
      {"fps_projection.0.weight", "SkyReels"},
      {"patch_embedding_pose.weight", "SCAIL"},
      {"dwpose_embedding.0.weight", "UniAnimate"},
      {"blocks.12.cam_encoder.weight", "ReCamMaster"},
      {"blocks.0.projector.bias", "ReCamMaster"},
      {"LQ_proj_in.linear_layers.0.weight", "FlashVSR"}};
  for (const auto& [tensor, name] : cases)
    EXPECT_THAT(refusal_with(tensor), AllOf(HasSubstr(name), HasSubstr(tensor), HasSubstr("not supported")));
}

TEST(Relatives, WhatNobodyReadsIsNamed) {
  EXPECT_THAT(refusal_with("blocks.3.new_attn.q.weight"),
              AllOf(HasSubstr("1 of its tensors"), HasSubstr("\"blocks.3.new_attn.q.weight\"")));
  EXPECT_THAT(refusal_with("blocks.3.self_attn.q_loras.down.weight"), HasSubstr("q_loras"));
  EXPECT_THAT(refusal_with("blocks.3.proj_in.weight"), HasSubstr("\"blocks.3.proj_in.weight\""));
  EXPECT_THAT(refusal_with("vace_blocks.3.new_attn.weight"), HasSubstr("new_attn"));
  EXPECT_THAT(refusal_with("mood_embedding.weight"), HasSubstr("mood_embedding"));
  Shapes many;
  for (int i = 0; i < 9; ++i) many["blocks." + std::to_string(i) + ".x.weight"] = {2, 2};
  EXPECT_THAT(refusal_of_class([&] { refuse_relatives(*source_of(many)); }),
              AllOf(HasSubstr("9 of its tensors"), HasSubstr("+3 more")));
}

TEST(Relatives, WhatIsKnownOrHarmlessIsNot) {
  for (const char* file : {"dit_t2v_1_3b.txt", "dit_i2v_14b.txt"})
    EXPECT_EQ(refusal_of_class([&] { refuse_relatives(*source_of(listed(file))); }), "(no error)") << file;
  for (const char* tensor :
       {"freqs", "rope.freqs_cos", "blocks.0.attn2.norm_added_q.weight", "vae.decoder.conv1.weight",
        "text_encoders.umt5xxl.transformer.shared.weight", "blocks.0.attn1.to_q.lora_A.default.weight",
        "vace_blocks.0.proj_in.weight", "vace_blocks.0.attn1.to_q.weight", "vace_patch_embedding.weight",
        "blocks.0.to_gate_compress.weight", "blocks.0.action_model.mouse_mlp.0.weight"})
    EXPECT_EQ(refusal_with(tensor), "(no error)") << tensor;
  EXPECT_EQ(refusal_with("step", {1}), "(no error)");
  // If a file's transformer has a prefix, tensors without it belong to other parts.
  std::vector<TensorSource::Entry> entries = {
      {.name = "patch_embedding.weight",
       .name_in_file = "model.diffusion_model.patch_embedding.weight",
       .dims = {2, 2}},
      {.name = "upscaler.weight", .name_in_file = "upscaler.weight", .dims = {2, 2}}};
  const auto refused = [&] { return refusal_of_class([&] { refuse_relatives(TensorSource(entries, {})); }); };
  EXPECT_EQ(refused(), "(no error)");
  entries[1].name_in_file = "model.diffusion_model.upscaler.weight";
  EXPECT_THAT(refused(), HasSubstr("model.diffusion_model.upscaler.weight"));
  entries[1].dtype = DType::i16;
  EXPECT_EQ(refused(), "(no error)");
}

TEST(Relatives, ByTheirChannels) {
  const auto inputs = [](int64_t in, int64_t out) {
    WanConfig c;
    c.in_channels = in, c.out_channels = out;
    return refusal_of_class([&] { refuse_other_inputs(c, "m.safetensors"); });
  };
  EXPECT_THAT(inputs(48, 16),
              AllOf(HasSubstr("m.safetensors"), HasSubstr("Fun-Control"), HasSubstr("48 channels")));
  EXPECT_THAT(inputs(52, 16), HasSubstr("Fun-Control"));
  EXPECT_THAT(inputs(32, 16), HasSubstr("camera"));
  EXPECT_THAT(inputs(17, 16), AllOf(HasSubstr("17 channels"), HasSubstr("text-to-video models take 16")));
  for (const auto& [in, out] : {std::pair{16, 16}, {36, 16}, {48, 48}, {100, 48}, {4, 4}})
    EXPECT_EQ(inputs(in, out), "(no error)") << in;
}

TEST(Relatives, ByTheirConfigs) {
  const auto config = [](const char* text) {
    return refusal_of_class([&] { refuse_other_class(nlohmann::json::parse(text), "m"); });
  };
  EXPECT_THAT(config(R"({"_class_name": "SkyReelsV2Transformer3DModel"})"), HasSubstr("SkyReels-V2"));
  EXPECT_THAT(config(R"({"_class_name": "WanAnimateTransformer3DModel"})"), HasSubstr("Wan-Animate"));
  EXPECT_THAT(config(R"({"model_type": "s2v"})"), HasSubstr("Wan-S2V"));
  for (const char* text :
       {R"({"_class_name": "WanTransformer3DModel"})", R"({"_class_name": "WanVACETransformer3DModel"})",
        R"({"_class_name": "VaceWanModel", "model_type": "vace"})", R"({"_class_name": "CausalWanModel"})",
        R"({"model_type": "flf2v"})", R"({"model_type": 3})", "{}"})
    EXPECT_EQ(config(text), "(no error)") << text;
}

}  // namespace
}  // namespace tachy
