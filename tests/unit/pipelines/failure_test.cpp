// Tests runs that fail: they are cancelled, weights hold NaN, tensors are missing or misshapen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tiny_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

// Returns the error of a run that must fail.
Error failure(const std::string& model, const VideoRequest& request) {
  try {
    test::run(model, request);
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "the run succeeded";
  return Error(ErrorCode::internal, "no error");
}

TEST(Cancel, StopsAtEveryStage) {
  for (const char* stage : {"text", "load", "denoise", "decode"}) {
    TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
    std::atomic<bool> cancel{false};
    std::string last;
    VideoCallbacks callbacks{.cancel = &cancel};
    callbacks.progress = [&](const Progress& p) {
      last = p.stage;
      if (p.stage == stage) cancel = true;
    };
    try {
      test::run(pipeline, test::short_request(), callbacks);
      ADD_FAILURE() << "ran to its end after being cancelled in " << stage;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::cancelled) << stage << ": " << e.message();
    }
    // The run stopped soon, and the object can be used again.
    EXPECT_TRUE(last == stage || std::string(stage) == "load") << last << " after " << stage;
    cancel = false;
    callbacks.progress = {};
    EXPECT_EQ(test::run(pipeline, test::short_request(), callbacks).rgb,
              test::run(test::model_path(), test::short_request()).rgb);
  }
}

TEST(Cancel, LeavesNoBuffers) {
  const size_t before = Buffer::live_bytes();
  {
    TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
    const std::atomic<bool> cancel{true};
    EXPECT_THROW(test::run(pipeline, test::short_request(), {.cancel = &cancel}), Error);
  }
  EXPECT_EQ(Buffer::live_bytes(), before);
}

TEST(Damage, NaNInWeightsNamesTheStage) {
  struct Plant {
    const char *part, *tensor, *says;
  };
  for (const Plant& plant :
       {Plant{"text_encoder", "encoder.final_layer_norm.weight", "text encoder"},
        Plant{"text_encoder", "encoder.block.0.layer.0.SelfAttention.q.weight", "text encoder"},
        Plant{"transformer", "blocks.1.attn1.to_q.bias", "transformer"},
        Plant{"transformer", "patch_embedding.weight", "transformer"},
        Plant{"transformer", "condition_embedder.time_proj.bias", "transformer"},
        Plant{"vae", "decoder.conv_out.bias", "vae"}, Plant{"vae", "post_quant_conv.weight", "vae"},
        Plant{"vae", "decoder.mid_block.attentions.0.to_qkv.weight", "vae"}}) {
    const test::ScratchFolder scratch;
    const auto folder = test::model_copy(scratch);
    bool found = false;
    test::edit_weights(folder, plant.part, [&](const std::string& name, Tensor t) {
      if (name == plant.tensor) test::fill_nan(t), found = true;
      return true;
    });
    ASSERT_TRUE(found) << plant.tensor;
    const Error e = failure(folder, test::short_request());
    EXPECT_EQ(e.code(), ErrorCode::numerical) << plant.tensor << ": " << e.message();
    EXPECT_THAT(e.message(), HasSubstr(plant.says)) << plant.tensor;
  }
}

TEST(Damage, MissingAndMisshapenTensorsAreNamed) {
  struct Plant {
    const char *part, *tensor;
  };
  for (const Plant& plant :
       {Plant{"text_encoder", "shared.weight"},
        Plant{"text_encoder", "encoder.block.1.layer.1.DenseReluDense.wo.weight"},
        Plant{"transformer", "blocks.0.scale_shift_table"}, Plant{"transformer", "proj_out.bias"},
        Plant{"vae", "decoder.up_blocks.1.resnets.0.conv1.weight"}}) {
    for (const bool remove : {true, false}) {
      const test::ScratchFolder scratch;
      const auto folder = test::model_copy(scratch);
      if (remove) {
        test::edit_weights(folder, plant.part,
                           [&](const std::string& name, Tensor) { return name != plant.tensor; });
      } else {  // one row too few
        std::vector<std::vector<char>> keep;
        const auto file = find_weights(folder / plant.part);
        std::vector<NamedTensor> tensors;
        const auto source = open_safetensors(file);
        for (const auto& entry : source->entries()) {
          Tensor t(const_cast<void*>(entry.data), entry.dtype, entry.dims);
          if (entry.name == plant.tensor) {
            auto dims = entry.dims;
            dims.back() -= 1;
            if (dims.back() == 0) dims.back() = 2;
            keep.emplace_back(static_cast<size_t>(2 * t.bytes()));
            t = Tensor(keep.back().data(), entry.dtype, dims);
          }
          tensors.push_back({entry.name, t});
        }
        const auto other = file.string() + ".new";
        write_safetensors(other, tensors);
        std::filesystem::rename(other, file);
      }
      const Error e = failure(folder, test::short_request());
      EXPECT_EQ(e.code(), remove ? ErrorCode::not_found : ErrorCode::corrupt) << e.message();
      EXPECT_THAT(e.message(), HasSubstr(plant.tensor));
      EXPECT_THAT(e.message(), HasSubstr(plant.part));  // the error names the file
    }
  }
}

TEST(Damage, FoldersWithoutAPartSaySo) {
  for (const char* part : {"transformer", "vae", "text_encoder", "tokenizer"}) {
    const test::ScratchFolder scratch;
    const auto folder = test::model_copy(scratch);
    std::filesystem::remove_all(folder / part);
    const Error e = failure(folder, test::short_request());
    EXPECT_EQ(e.code(), ErrorCode::not_found) << e.message();
    EXPECT_THAT(e.message(), HasSubstr(part));
  }
}

}  // namespace
}  // namespace tachy
