// Tests the report on a model folder's contents: the defaults of generate's options.
#include "report/info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../pipelines/experts_model.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;

TEST(Info, AModelOfTwoExpertsHasTwoGuidances) {
  const ModelInfo two = describe_model(test::experts_model("t2v"));
  const VideoRequest& d = ModelBundle::open(test::experts_model("t2v")).defaults;
  ASSERT_TRUE(d.guidance_2.has_value());
  EXPECT_THAT(two.defaults, Contains(Pair("guidance", fmt::format("{:g}", *d.guidance))));
  EXPECT_THAT(two.defaults, Contains(Pair("guidance-2", fmt::format("{:g}", *d.guidance_2))));
  EXPECT_THAT(describe_model(test::model_path()).defaults, Not(Contains(Key("guidance-2"))));
}

// Returns a part of the tiny model as a single file, with its config beside it.
fs::path alone(const test::ScratchFolder& scratch, const std::string& part) {
  const fs::path to = scratch.path / (part + ".safetensors");
  fs::copy_file(find_weights(fs::path(test::model_path()) / part), to);
  fs::copy_file(fs::path(test::model_path()) / part / "config.json", scratch.path / (part + ".json"));
  return to;
}

TEST(Info, AFileByItselfIsDescribedWithWhatIsMissing) {
  const test::ScratchFolder scratch;
  const fs::path transformer = alone(scratch, "transformer"), vae = alone(scratch, "vae"),
                 text = alone(scratch, "text_encoder");
  const ModelInfo dit = describe_model(transformer);
  EXPECT_EQ(dit.kind, "text-to-video");
  EXPECT_EQ(dit.layout, "single file");
  ASSERT_EQ(dit.components.size(), 1u);
  EXPECT_EQ(dit.components[0].container, "safetensors");
  EXPECT_THAT(dit.components[0].options, Contains(Pair("heads", "2 of 12")));
  ASSERT_EQ(dit.missing.size(), 2u);
  EXPECT_THAT(dit.missing[0], HasSubstr("`text_encoder`"));
  EXPECT_THAT(dit.missing[1], HasSubstr("`vae`"));
  EXPECT_THAT(dit.defaults, IsEmpty());

  const PartPaths parts{.text_encoder = text, .vae = vae};
  const ModelInfo no_words = describe_model(transformer, parts);
  ASSERT_EQ(no_words.missing.size(), 1u);
  EXPECT_THAT(no_words.missing[0], HasSubstr("`tokenizer`"));
  PartPaths all = parts;
  all.tokenizer = test::model_path() + "/tokenizer";
  const ModelInfo whole = describe_model(transformer, all);
  EXPECT_THAT(whole.missing, IsEmpty());
  EXPECT_EQ(whole.components.size(), 3u);
  EXPECT_THAT(whole.defaults, Contains(Key("steps")));

  EXPECT_EQ(describe_model(vae).kind, "VAE");
  EXPECT_EQ(describe_model(text).kind, "text encoder");
  EXPECT_THAT(describe_model(text).missing, Contains(HasSubstr("`text_encoder` takes")));
}

TEST(Info, BadFilesSayWhy) {
  const auto refuse = [](const fs::path& path, ErrorCode code, const std::string& reason) {
    try {
      describe_model(path);
      ADD_FAILURE() << path;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.message();
      EXPECT_THAT(e.message(), HasSubstr(reason));
      EXPECT_THAT(e.message(), HasSubstr(path.filename().string()));
    }
  };
  const test::ScratchFolder scratch;
  refuse(scratch.path / "gone.safetensors", ErrorCode::not_found, "no such");
  std::ofstream(scratch.path / "text.safetensors") << "these are no weights, only words";
  refuse(scratch.path / "text.safetensors", ErrorCode::corrupt, "header");
  refuse(test::golden_path("weights/tiny.pth"), ErrorCode::not_found, "expected a Wan transformer");
  const fs::path cut = alone(scratch, "transformer");
  fs::resize_file(cut, fs::file_size(cut) / 2);
  refuse(cut, ErrorCode::corrupt, "truncated");
}

}  // namespace
}  // namespace tachy
