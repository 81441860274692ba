#include "weights/names/wrapper_names.h"

#include <gtest/gtest.h>

namespace tachy {
namespace {

TEST(WrapperNames, WholePiecesGoWhereverTheyStand) {
  const std::string name = "blocks.0.ffn.0.weight";
  for (const std::string wrapped :
       {"blocks.0.ffn.0.weight", "_orig_mod.blocks.0.ffn.0.weight", "module.blocks.0.ffn.0.weight",
        "module._orig_mod.blocks.0.ffn.0.weight",
        "_fsdp_wrapped_module.blocks.0._fsdp_wrapped_module.ffn.0.weight",
        "blocks.0._checkpoint_wrapped_module.ffn.0.weight", "blocks.0.ffn.0._orig_mod.weight",
        "_forward_module.module.blocks.0.ffn.0.weight", "_fpw_module.blocks.0.ffn.0.weight"})
    EXPECT_EQ(without_wrappers(wrapped), name) << wrapped;
}

TEST(WrapperNames, PartsOfPiecesAndTheTensorsOwnNameStay) {
  for (const std::string own :
       {"modules.0.weight", "motion_module.weight", "x_orig_mod.weight", "_orig_mods.a", "blocks.0.module",
        "module", "_orig_mod", "", ".", "a..b", "weight."})
    EXPECT_EQ(without_wrappers(own), own);
  EXPECT_EQ(without_wrappers("module."), "");
}

TEST(WrapperNames, UnderscoredNames) {
  const std::string name = "lora_unet_blocks_0_ffn_0";
  for (const std::string wrapped : {"lora_unet_blocks_0_ffn_0", "lora_unet__orig_mod_blocks_0_ffn_0",
                                    "lora_unet_blocks_0__checkpoint_wrapped_module_ffn_0"})
    EXPECT_EQ(without_underscored_wrappers(wrapped), name) << wrapped;
  EXPECT_EQ(without_underscored_wrappers("lora_unet_motion_module_0"), "lora_unet_motion_module_0");
}

}  // namespace
}  // namespace tachy
