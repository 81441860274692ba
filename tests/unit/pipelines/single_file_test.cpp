// Tests models whose parts are single files, made from the tiny model: they are named one by one, or found in
// ComfyUI's folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "catalog/open_tokenizer.h"
#include "convert/convert.h"
#include "session/fingerprint.h"
#include "session/text_cache.h"
#include "text/tokenizer.h"
#include "tiny_model.h"
#include "weights/entry_values.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// ComfyUI's folders with the tiny model in them. The model's heads are not Wan's, so each part has its config
// beside it.
struct Comfy {
  explicit Comfy(const std::string& from = test::model_path()) {
    put(from, "transformer", transformer);
    put(from, "text_encoder", text_encoder);
    put(from, "vae", vae);
    fs::copy_file(from + "/tokenizer/tokenizer.json", scratch.path / "tokenizer.json");
  }
  void put(const fs::path& from, const std::string& part, const fs::path& to) const {
    fs::create_directories(to.parent_path());
    fs::copy_file(find_weights(from / part), to);
    fs::copy_file(from / part / "config.json", fs::path(to).replace_extension(".json"));
  }
  ModelBundle open(PartPaths parts = {}) const {
    if (parts.tokenizer.empty()) parts.tokenizer = scratch.path / "tokenizer.json";
    return ModelBundle::open(transformer, FileAccess::map, parts);
  }

  test::ScratchFolder scratch;
  fs::path transformer = scratch.path / "models/unet/wan/t2v.safetensors";
  fs::path text_encoder = scratch.path / "models/text_encoders/umt5_tiny.safetensors";
  fs::path vae = scratch.path / "models/vae/vae.safetensors";
};

test::Result result_of(ModelBundle model) {
  TextToVideo pipeline(std::move(model), {.threads = 2});
  VideoRequest request = test::short_request();
  request.shift = 3, request.guidance = 4, request.negative_prompt = "";
  return test::run(pipeline, request);
}

TEST(SingleFile, FramesAreThoseOfTheFolder) {
  const Comfy comfy;
  const std::vector<uint8_t> want = result_of(ModelBundle::open(test::model_path())).rgb;
  ASSERT_FALSE(want.empty());
  EXPECT_EQ(result_of(comfy.open()).rgb, want) << "found in ComfyUI's folders";

  const fs::path elsewhere = comfy.scratch.path / "t2v.safetensors";
  comfy.put(test::model_path(), "transformer", elsewhere);
  const PartPaths files{
      .text_encoder = comfy.text_encoder, .vae = comfy.vae, .tokenizer = comfy.scratch.path};
  EXPECT_EQ(result_of(ModelBundle::open(elsewhere, FileAccess::read, files)).rgb, want) << "named";
  const PartPaths folders{.text_encoder = test::model_path(), .vae = test::model_path() + "/vae"};
  EXPECT_EQ(result_of(ModelBundle::open(elsewhere, FileAccess::map, folders)).rgb, want) << "of a folder";
  EXPECT_EQ(result_of(ModelBundle::open(test::model_path(), FileAccess::map, {.vae = comfy.vae})).rgb, want)
      << "beside a folder";
}

TEST(SingleFile, DefaultsFollowTheNamesOfTheTensors) {
  const Comfy comfy;
  EXPECT_EQ(*comfy.open().defaults.grid, "diffusers");
  fs::copy_file(test::model_path(true) + "/diffusion_pytorch_model.safetensors", comfy.transformer,
                fs::copy_options::overwrite_existing);
  const ModelBundle original = comfy.open(), folder = ModelBundle::open(test::model_path(true));
  EXPECT_EQ(*original.defaults.grid, "original");
  EXPECT_EQ(original.dit.sinusoid, Sinusoid::original);
  for (const auto member : {&VideoRequest::steps, &VideoRequest::frames, &VideoRequest::height})
    EXPECT_EQ(original.defaults.*member, folder.defaults.*member);
  EXPECT_EQ(original.defaults.shift, folder.defaults.shift);
  EXPECT_EQ(original.defaults.negative_prompt, folder.defaults.negative_prompt);
}

TEST(SingleFile, TwoExpertsAreTwoFiles) {
  const Comfy comfy;
  const fs::path low = comfy.scratch.path / "low.safetensors";
  comfy.put(test::model_path(), "transformer", low);
  const ModelBundle two = comfy.open({.transformer_2 = low});
  EXPECT_EQ(two.experts(), 2);
  EXPECT_EQ(two.boundary, 0.875);
  EXPECT_EQ(*two.defaults.guidance_2, 3.0);
  const fs::path high = comfy.scratch.path / "x_high_noise.safetensors",
                 swapped = comfy.scratch.path / "x_low_noise.safetensors";
  for (const auto& path : {high, swapped}) comfy.put(test::model_path(), "transformer", path);
  EXPECT_THAT(test::refusal([&] { ModelBundle::open(swapped, FileAccess::map, {.transformer_2 = high}); },
                            ErrorCode::invalid_argument),
              HasSubstr("`transformer_2`"));
}

TEST(SingleFile, SaysWhatIsMissingOrAmbiguous) {
  const Comfy comfy;
  const fs::path second = comfy.vae.parent_path() / "more/second.safetensors";
  comfy.put(test::model_path(), "vae", second);
  EXPECT_THAT(test::refusal([&] { comfy.open(); }, ErrorCode::invalid_argument),
              AllOf(HasSubstr("`vae`"), HasSubstr(comfy.vae.string()), HasSubstr(second.string())));
  EXPECT_NO_THROW(comfy.open({.vae = second}));
  std::ofstream(second) << "not weights at all";
  EXPECT_NO_THROW(comfy.open()) << "a file that is broken fits nothing";
  fs::remove(comfy.vae);
  EXPECT_THAT(test::refusal([&] { comfy.open(); }, ErrorCode::not_found),
              AllOf(HasSubstr("`vae`"), HasSubstr(second.string())));
  EXPECT_THAT(test::refusal([&] { comfy.open({.vae = second}); }, ErrorCode::corrupt), HasSubstr("`vae`"));
  EXPECT_THAT(test::refusal([&] { comfy.open({.vae = comfy.text_encoder}); }, ErrorCode::not_found),
              HasSubstr("`vae`"));
  EXPECT_THAT(test::refusal([&] { ModelBundle::open(comfy.text_encoder); }, ErrorCode::invalid_argument),
              HasSubstr("text encoder"));

  const std::vector<std::string> missing = missing_parts(comfy.transformer, {});
  ASSERT_EQ(missing.size(), 2u);
  EXPECT_THAT(missing[0], HasSubstr("`tokenizer`"));
  EXPECT_THAT(missing[1], HasSubstr("`vae`"));

  fs::remove(fs::path(comfy.transformer).replace_extension(".json"));
  EXPECT_THAT(test::refusal([&] { comfy.open(); }, ErrorCode::unsupported), HasSubstr("number of heads"));
}

TEST(SingleFile, ConfigInTheHeader) {
  const Comfy comfy;
  const auto source = open_safetensors(comfy.transformer, FileAccess::read);
  std::vector<NamedTensor> tensors;
  for (const auto& e : source->entries())
    tensors.push_back({e.name, Tensor(const_cast<void*>(e.data), e.dtype, e.dims)});
  std::ifstream in(fs::path(comfy.transformer).replace_extension(".json"));
  std::string config{std::istreambuf_iterator<char>(in), {}};
  fs::remove(fs::path(comfy.transformer).replace_extension(".json"));
  write_safetensors(comfy.transformer, tensors, {{"config", config}});
  EXPECT_TRUE(comfy.open().dit == ModelBundle::open(test::model_path()).dit);
  config.replace(config.find("\"num_layers\": 2"), 15, "\"num_layers\": 3");
  write_safetensors(comfy.transformer, tensors, {{"config", config}});
  EXPECT_THAT(test::refusal([&] { comfy.open(); }, ErrorCode::corrupt),
              HasSubstr("num_layers 3, its tensors 2"));
  write_safetensors(comfy.transformer, tensors, {{"config", "{\"ffn_dim\": [[["}});
  EXPECT_THAT(test::refusal([&] { comfy.open(); }, ErrorCode::corrupt), HasSubstr("config"));
}

// Rewrites the transformer's file: `change` sees each tensor, and `more` are added.
void rewrite(const Comfy& comfy, const std::function<void(NamedTensor&)>& change,
             const std::vector<NamedTensor>& more = {}) {
  const auto source = open_safetensors(find_weights(test::model_path() + "/transformer"), FileAccess::read);
  std::vector<NamedTensor> tensors = more;
  for (const auto& e : source->entries()) {
    tensors.push_back({e.name, Tensor(const_cast<void*>(e.data), e.dtype, e.dims)});
    if (change) change(tensors.back());
  }
  write_safetensors(comfy.transformer, std::move(tensors));
}

TEST(SingleFile, Float64AndNamesOfWrappersGiveTheSameFrames) {
  const Comfy comfy;
  const std::vector<uint8_t> want = result_of(comfy.open()).rgb;
  std::deque<std::vector<double>> wide;
  int64_t steps = 7;
  rewrite(comfy,
          [&](NamedTensor& t) {
            std::vector<float> values(static_cast<size_t>(t.tensor.numel()));
            entry_values({.dtype = t.tensor.dtype,
                          .dims = {t.tensor.shape().begin(), t.tensor.shape().end()},
                          .data = t.tensor.data},
                         0, values);
            wide.emplace_back(values.begin(), values.end());
            t = {"_orig_mod." + t.name, Tensor(wide.back().data(), DType::f64, t.tensor.shape())};
          },
          {{"steps", Tensor(&steps, DType::i64, {1})}});
  EXPECT_EQ(result_of(comfy.open()).rgb, want);
  const fs::path out = comfy.scratch.path / "out.safetensors";
  convert_model(comfy.transformer, out, {}, {.to = "single"});
  EXPECT_EQ(open_safetensors(out)->find("model.diffusion_model.head.head.weight")->dtype, DType::f32);
}

TEST(SingleFile, RelativesAreRefusedInFilesAndFolders) {
  const Comfy comfy;
  const float zeros[4] = {};
  const auto beside = [&](const char* name) {
    rewrite(comfy, {}, {{name, Tensor(const_cast<float*>(zeros), DType::f32, {2, 2})}});
    const std::string file = test::refusal([&] { comfy.open(); }, ErrorCode::unsupported);
    const fs::path folder = comfy.scratch.path / "folder";
    fs::create_directories(folder);
    fs::copy(test::model_path(), folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    fs::copy_file(comfy.transformer, find_weights(folder / "transformer"),
                  fs::copy_options::overwrite_existing);
    EXPECT_THAT(test::refusal([&] { ModelBundle::open(folder); }, ErrorCode::unsupported), HasSubstr(name));
    return file;
  };
  EXPECT_THAT(beside("patch_embedding_pose.weight"), HasSubstr("follows poses"));
  EXPECT_THAT(beside("fps_embedding.weight"), HasSubstr("SkyReels"));
  EXPECT_THAT(beside("blocks.0.mood.weight"),
              AllOf(HasSubstr("1 of its tensors"), HasSubstr("blocks.0.mood.weight")));
}

TEST(SingleFile, WholeNumbersAreNamed) {
  const Comfy comfy;
  std::vector<int32_t> numbers;
  rewrite(comfy, [&](NamedTensor& t) {
    if (t.name != "blocks.1.attn1.to_q.weight") return;
    numbers.assign(static_cast<size_t>(t.tensor.numel()), 1);
    t.tensor = Tensor(numbers.data(), DType::i32, t.tensor.shape());
  });
  EXPECT_THAT(test::refusal([&] { result_of(comfy.open()); }, ErrorCode::unsupported),
              AllOf(HasSubstr(comfy.transformer.string()), HasSubstr("\"blocks.1.attn1.to_q.weight\""),
                    HasSubstr("i32")));
}

// Writes a matrix of the text encoder as fp8 with a scale, to a file with the same time and length for every
// scale.
void quantise(const Comfy& comfy, float scale) {
  const auto source = open_safetensors(comfy.text_encoder, FileAccess::read);
  const std::string stem = "encoder.block.0.layer.0.SelfAttention.q.";
  std::vector<NamedTensor> tensors;
  std::vector<uint8_t> values;
  for (const auto& e : source->entries()) {
    if (e.name == stem + "scale_weight") continue;
    if (e.name == stem + "weight") {
      values.assign(static_cast<size_t>(e.dims[0] * e.dims[1]), 0x38);  // the code of 1
      tensors.push_back({stem + "weight", Tensor(values.data(), DType::f8_e4m3, e.dims)});
    } else {
      tensors.push_back({e.name, Tensor(const_cast<void*>(e.data), e.dtype, e.dims)});
    }
  }
  tensors.push_back({stem + "scale_weight", Tensor(&scale, DType::f32, {1})});
  write_safetensors(comfy.text_encoder, std::move(tensors));
  fs::last_write_time(comfy.text_encoder, fs::file_time_type{});
}

TEST(SingleFile, TheTextCacheKnowsScales) {
  const Comfy comfy;
  quantise(comfy, 0.5f);
  const ModelBundle one = comfy.open();
  EXPECT_NE(one.text_encoder->find("encoder.block.0.layer.0.SelfAttention.q.weight")->derived, nullptr);
  EXPECT_FALSE(one.text_encoder->has("encoder.block.0.layer.0.SelfAttention.q.scale_weight"));
  const std::string first = encoder_fingerprint(one), model = fingerprint(one);
  EXPECT_EQ(encoder_fingerprint(comfy.open()), first);
  const std::vector<uint8_t> frames = result_of(comfy.open()).rgb;
  quantise(comfy, 0.25f);
  EXPECT_NE(encoder_fingerprint(comfy.open()), first);
  EXPECT_NE(fingerprint(comfy.open()), model);
  EXPECT_NE(result_of(comfy.open()).rgb, frames);
}

// Writes a text encoder that contains its tokenizer, like ComfyUI's; `bytes` are those of its spiece.model.
void carry(const Comfy& comfy, std::vector<uint8_t> bytes) {
  std::vector<NamedTensor> tensors;
  const auto source = open_safetensors(comfy.text_encoder, FileAccess::read);
  for (const auto& e : source->entries())
    if (e.name != "spiece_model")
      tensors.push_back({e.name, Tensor(const_cast<void*>(e.data), e.dtype, e.dims)});
  tensors.push_back({"spiece_model", Tensor(bytes.data(), DType::u8, {static_cast<int64_t>(bytes.size())})});
  write_safetensors(comfy.text_encoder, std::move(tensors));
}

TEST(SingleFile, TheTextEncoderCarriesItsTokenizer) {
  const Comfy comfy;
  const auto open = [&] { return ModelBundle::open(comfy.transformer); };
  EXPECT_THAT(test::refusal(open, ErrorCode::not_found), HasSubstr("`tokenizer`"));
  std::ifstream in(std::string(TACHY_TEST_MODELS) + "/sprites/tokenizer/spiece.model", std::ios::binary);
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(bytes.empty());
  carry(comfy, bytes);
  const auto tokenizer = open_tokenizer(open());
  EXPECT_EQ(tokenizer->encode("a red circle"),
            Tokenizer::open(std::string(TACHY_TEST_MODELS) + "/sprites/tokenizer")->encode("a red circle"));
  const std::string with = fingerprint(open());
  bytes.resize(bytes.size() / 2);
  carry(comfy, bytes);
  EXPECT_THAT(test::refusal([&] { open_tokenizer(open()); }, ErrorCode::corrupt), HasSubstr("spiece_model"));
  EXPECT_NE(fingerprint(open()), with);
}

}  // namespace
}  // namespace tachy
