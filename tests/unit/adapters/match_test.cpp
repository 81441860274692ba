// Names that trainers use are matched with the names in models. The tests also cover what fits nothing, and
// why.
#include "support.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

TEST(Match, FindsALayerByAnyOfItsNames) {
  const Model model;
  for (const char* stem : {"blocks.0.attn1.to_q",
                           "transformer.blocks.0.attn1.to_q",
                           "diffusion_model.blocks.0.self_attn.q",
                           "model.diffusion_model.blocks.0.self_attn.q",
                           "pipe.dit.blocks.0.self_attn.q",
                           "base_model.model.blocks.0.self_attn.q",
                           "base_model.model.transformer.blocks.0.attn1.to_q",
                           "blocks.0.self_attn.q",
                           "lora_unet_blocks_0_self_attn_q",
                           "lora_unet__blocks_0_self_attn_q",
                           "lycoris_blocks_0_self_attn_q",
                           "lora_transformer_blocks_0_attn1_to_q",
                           "lora_unet_blocks.0.self_attn_q",
                           "transformer.blocks.0.attn1.processor.to_q",
                           "_orig_mod.blocks.0.attn1.to_q",
                           "module.diffusion_model._orig_mod.blocks.0.self_attn.q",
                           "base_model.model._fsdp_wrapped_module.blocks.0._fsdp_wrapped_module.attn1.to_q",
                           "transformer.blocks.0._checkpoint_wrapped_module.attn1.to_q._orig_mod",
                           "lora_unet__orig_mod_blocks_0_self_attn_q",
                           "lora_unet_blocks_0__checkpoint_wrapped_module_self_attn_q"}) {
    const AdapterMatch match = model.match(made_adapter(pair_of(stem)));
    ASSERT_EQ(match.matched, 1) << stem << (match.unmatched.empty() ? "" : ": " + match.unmatched[0].reason);
    EXPECT_EQ(match.parts[0].changes.at(0)->tensor, "blocks.0.attn1.to_q.weight") << stem;
  }
  EXPECT_EQ(
      model.match(made_adapter(pair_of("transformer.blocks.0.attn1.to_out"))).parts[0].changes.at(0)->tensor,
      "blocks.0.attn1.to_out.0.weight");
  EXPECT_EQ(model.match(made_adapter(pair_of("lora_unet_blocks_0_cross_attn_k_img")))
                .parts[0]
                .changes.at(0)
                ->tensor,
            "blocks.0.attn2.add_k_proj.weight");
}

void expect_unmatched(const MadeSource& made, const std::string& reason) {
  const Model model;
  const AdapterMatch match = model.match(made_adapter(made));
  ASSERT_EQ(match.unmatched.size(), 1u) << reason;
  EXPECT_EQ(match.matched, 0);
  EXPECT_TRUE(match.parts[0].changes.empty());
  EXPECT_THAT(match.unmatched[0].reason, HasSubstr(reason));
}

TEST(Match, SaysWhyALayerDoesNotFit) {
  expect_unmatched(pair_of("blocks.7.attn1.to_q"), "the model has no layer of this name");
  expect_unmatched(pair_of("diffusion_model.vace_blocks.0.self_attn.q"),
                   "control block of this name, as VACE");
  expect_unmatched(pair_of("q.blocks.0.attn1.to_q"), "the model has no layer of this name");
  expect_unmatched(pair_of("blocks.0.attn1.to_q", 24, 30), "[24, 2] · [2, 30], the model's weight [24, 24]");
  expect_unmatched(pair_of("transformer_2.blocks.0.attn1.to_q"), "low-noise expert of two");
  expect_unmatched(MadeSource().add("blocks.0.attn1.to_q.lora_up.weight", {24, 2}),
                   "it has no lora_down (lora_A)");
  expect_unmatched(MadeSource().add("blocks.0.attn1.to_q.lora_A.weight", {2, 24}),
                   "it has no lora_up (lora_B)");
  expect_unmatched(MadeSource()
                       .add("blocks.0.attn1.to_q.lora_A.weight", {48})
                       .add("blocks.0.attn1.to_q.lora_B.weight", {24, 2}),
                   "expected a matrix");
  expect_unmatched(MadeSource().add("blocks.0.attn1.to_q.alpha", {1}), "nothing to add");
  expect_unmatched(MadeSource()
                       .add("blocks.0.attn1.to_q.a1.weight", {24, 2})
                       .add("blocks.0.attn1.to_q.a2.weight", {3, 24})
                       .add("blocks.0.attn1.to_q.b1.weight", {24, 2})
                       .add("blocks.0.attn1.to_q.b2.weight", {2, 24}),
                   "its a1 and a2 are [24, 2] · [3, 24]");
  expect_unmatched(MadeSource().add("blocks.0.attn1.to_q.b1.weight", {24, 2}), "it has no b2");
  expect_unmatched(MadeSource().add("blocks.0.attn1.to_q.oft_blocks", {1, 24, 24}),
                   "to_q.oft_blocks\" is of a kind that is not supported");
  expect_unmatched(MadeSource().add("blocks.0.attn1.to_q.weight", {24, 24}), "not a tensor of an adapter");
  expect_unmatched(MadeSource().add("blocks.0.attn1.norm_q.diff_b", {24}), "has no bias");
  expect_unmatched(MadeSource().add("blocks.0.attn1.norm_q.diff", {25}),
                   "its change is [25], the model's tensor [24]");
  expect_unmatched(MadeSource().add("blocks.0.attn1.to_q.diff_m", {24}), "has no modulation");
  MadeSource magnitude = pair_of("blocks.0.attn1.to_q");
  magnitude.add("blocks.0.attn1.to_q.dora_scale", {1, 24});
  expect_unmatched(magnitude, "one a row");
  MadeSource kronecker;
  kronecker.add("blocks.0.attn1.to_q.lokr_w1", {2, 2}).add("blocks.0.attn1.to_q.lokr_w2", {12, 11});
  expect_unmatched(kronecker, "its product is [24, 22]");
  MadeSource hadamard;
  hadamard.add("blocks.0.attn1.to_q.hada_w1_a", {24, 2}).add("blocks.0.attn1.to_q.hada_w1_b", {2, 24});
  hadamard.add("blocks.0.attn1.to_q.hada_w2_a", {24, 2});
  expect_unmatched(hadamard, "it has no hada_w2_b");
}

TEST(Match, ALowerRankInOneFileIsItsOwnScale) {
  const Model model;
  MadeSource made = pair_of("blocks.0.attn1.to_q", 24, 24, 2);
  const auto add = [&](const char* stem, int64_t rank, float alpha) {
    made.add(std::string(stem) + ".lora_down.weight", {rank, 24})
        .add(std::string(stem) + ".lora_up.weight", {24, rank});
    made.add(std::string(stem) + ".alpha", {1}, alpha);
  };
  add("blocks.0.attn1.to_k", 4, 8), add("blocks.0.attn1.to_v", 8, 8), add("blocks.0.attn1.to_out.0", 1, 0);
  const AdapterMatch match = model.match(made_adapter(made));
  std::map<std::string, double> scales;
  for (const auto& change : match.parts[0].changes) scales[change->tensor] = change->scale;
  EXPECT_EQ(scales["blocks.0.attn1.to_q.weight"], 1);  // here the file has no alpha
  EXPECT_EQ(scales["blocks.0.attn1.to_k.weight"], 2);
  EXPECT_EQ(scales["blocks.0.attn1.to_v.weight"], 1);
  EXPECT_EQ(scales["blocks.0.attn1.to_out.0.weight"], 0);  // an alpha of 0 means 0
}

TEST(Match, AnAlphaThatIsNoNumberIsAnError) {
  const Model model;
  for (const float alpha : {NAN, INFINITY}) {
    MadeSource made = pair_of("blocks.0.attn1.to_q");
    made.add("blocks.0.attn1.to_q.alpha", {1}, alpha);
    EXPECT_THROW(model.match(made_adapter(made)), Error);
  }
  MadeSource many = pair_of("blocks.0.attn1.to_q");
  many.add("blocks.0.attn1.to_q.alpha", {2});
  EXPECT_THROW(model.match(made_adapter(many)), Error);
}

// torch.tensor(8) is an int64, and torch.tensor(8.0, dtype=float64) is a double.
TEST(Match, AnAlphaMayBeAWholeNumberOrADouble) {
  const Model model;
  const int64_t whole = 8;
  const int32_t half = 8;
  const double wide = 8;
  for (const auto& [dtype, data] :
       {std::pair<DType, const void*>{DType::i64, &whole}, {DType::i32, &half}, {DType::f64, &wide}}) {
    MadeSource made = pair_of("blocks.0.attn1.to_q");
    made.add("blocks.0.attn1.to_q.alpha", {1});
    made.entries.back().dtype = dtype, made.entries.back().data = data;
    made.entries.back().bytes = static_cast<uint64_t>(dtype_size(dtype));
    EXPECT_EQ(model.match(made_adapter(made)).parts[0].changes.at(0)->scale, 4) << dtype_name(dtype);
  }
}

TEST(Match, TwoTensorsOfOneRoleAreAnError) {
  MadeSource made = pair_of("blocks.0.attn1.to_q");
  made.add("blocks.0.attn1.to_q.lora_A.weight", {2, 24});
  EXPECT_THROW(made_adapter(made), Error);
}

// The report tells which model the file is for, if its shapes show that.
TEST(Match, SaysWhichModelAFileWasMadeFor) {
  MadeSource image;
  image.add("patch_embedding.weight", {24, 36, 1, 2, 2}).add("blocks.0.attn1.to_q.weight", {1536, 1536});
  const Model model(image.source());
  MadeSource text;
  text.add("diffusion_model.patch_embedding.lora_down.weight", {4, 16, 1, 2, 2});
  text.add("diffusion_model.patch_embedding.lora_up.weight", {24, 4, 1, 1, 1});
  AdapterMatch match = model.match(made_adapter(text));
  EXPECT_EQ(match.unmatched.size(), 1u);
  EXPECT_THAT(match.hint,
              HasSubstr("reads 16 channels, like that of a text-to-video model; this model's reads 36"));
  match = model.match(made_adapter(pair_of("diffusion_model.blocks.0.self_attn.q", 5120, 5120)));
  EXPECT_THAT(match.hint, HasSubstr("5120 wide, like those of the 14B models; this model's are 1536"));
  // If the widths agree, something else must be the mismatch.
  EXPECT_EQ(model.match(made_adapter(pair_of("diffusion_model.blocks.0.self_attn.q", 8, 1536))).hint, "");
  MadeSource channels;
  channels.add("diffusion_model.patch_embedding.lora_down.weight", {4, 36, 1, 1, 1});
  channels.add("diffusion_model.patch_embedding.lora_up.weight", {24, 4, 1, 1, 1});
  match = model.match(made_adapter(channels));
  EXPECT_EQ(match.unmatched.size(), 1u);
  EXPECT_EQ(match.hint, "");
}

TEST(Match, NamesThatFallTogetherAreRefused) {
  MadeSource twins;
  twins.add("blocks.0.a_b.weight", {24, 24}).add("blocks.0.a.b.weight", {24, 24});
  const AdapterMatch match = Model(twins.source()).match(made_adapter(pair_of("lora_unet_blocks_0_a_b")));
  ASSERT_EQ(match.unmatched.size(), 1u);
  EXPECT_THAT(match.unmatched[0].reason, HasSubstr("when dots are written as underscores"));
}

TEST(Match, LayersOfTheTextEncoder) {
  const Model model;
  MadeSource encoder;
  encoder.add("encoder.block.0.layer.0.SelfAttention.q.weight", {24, 24});
  const auto source = encoder.source();
  const TargetNames names(*source, umt5_to_original);
  for (const char* stem :
       {"lora_te1_encoder_block_0_layer_0_SelfAttention_q",
        "text_encoder.encoder.block.0.layer.0.SelfAttention.q", "lora_te_blocks_0_attn_q"}) {
    const AdapterMatch match =
        match_adapter(made_adapter(pair_of(stem)),
                      {.transformers = {{"transformer", &model.names}}, .text_encoder = &names});
    EXPECT_EQ(match.matched, 1) << stem;
    EXPECT_EQ(match.parts[1].changes.size(), 1u) << stem;
  }
}

// Every name of the published models is found again after conversion to the original's spelling.
TEST(Match, OriginalNamesComeBack) {
  for (const char* name : {"blocks.3.attn1.to_out.0.weight", "blocks.39.attn2.norm_added_k.weight",
                           "proj_out.bias", "condition_embedder.time_proj.weight", "scale_shift_table",
                           "blocks.0.norm2.bias", "blocks.0.ffn.net.0.proj.weight", "patch_embedding.weight",
                           "condition_embedder.image_embedder.ff.net.2.bias"})
    EXPECT_EQ(dit_from_original(dit_to_original(name)), name);
  for (const char* name : {"shared.weight", "encoder.block.3.layer.1.DenseReluDense.wi_0.weight",
                           "encoder.final_layer_norm.weight"})
    EXPECT_EQ(umt5_from_original(umt5_to_original(name)), name);
}

}  // namespace
}  // namespace tachy::test
