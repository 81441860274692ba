// Tests JSON files, and finding the parts of a model folder in both layouts.
#include "support.h"
#include "weights/json_file.h"
#include "weights/model_layout.h"

namespace tachy::test {
namespace {

void put(const fs::path& path, const std::string& bytes = "{}") { write_bytes(path, bytes); }

constexpr const char* kWanConfig = R"({"model_type":"t2v","dim":1536,"num_layers":30})";

void make_diffusers(const fs::path& root) {
  put(root / "model_index.json",
      R"({"_class_name":"WanPipeline","transformer":["diffusers","WanTransformer3DModel"],
    "transformer_2":[null,null],"image_encoder":[null,null]})");
  for (const auto* name : {"transformer", "vae"}) {
    put(root / name / "config.json", R"({"num_layers":2})");
    put(root / name / "diffusion_pytorch_model.safetensors");
  }
  put(root / "text_encoder" / "config.json");
  put(root / "text_encoder" / "model.safetensors.index.json");
  put(root / "tokenizer" / "tokenizer.json");
  put(root / "scheduler" / "scheduler_config.json", R"({"flow_shift":3.0})");
}

void make_original(const fs::path& root) {
  put(root / "config.json", kWanConfig);
  put(root / "diffusion_pytorch_model.safetensors");
  put(root / "models_t5_umt5-xxl-enc-bf16.pth");
  put(root / "Wan2.1_VAE.pth");
  put(root / "google/umt5-xxl/spiece.model");
}

TEST(ModelLayout, Diffusers) {
  const TempFolder folder;
  make_diffusers(folder.path());
  const auto m = open_model(folder.path());
  EXPECT_EQ(m.layout, ModelFiles::Layout::diffusers);
  EXPECT_EQ(m.transformer.weights, folder / "transformer/diffusion_pytorch_model.safetensors");
  EXPECT_EQ(json_int(*m.transformer.config, "num_layers", 1, 100), 2);
  EXPECT_EQ(m.text_encoder.weights, folder / "text_encoder/model.safetensors.index.json");
  EXPECT_EQ(m.tokenizer, folder / "tokenizer");
  EXPECT_EQ(json_double(*m.scheduler, "flow_shift", 0, 0, 100), 3.0);
  EXPECT_FALSE(m.transformer_2.present());
  EXPECT_FALSE(m.image_encoder.present());
  EXPECT_EQ(m.generation_config, nullptr);
  EXPECT_FALSE(is_component_folder(folder.path()));
  EXPECT_TRUE(is_component_folder(folder / "transformer"));
}

TEST(ModelLayout, DiffusersNamesWhatIsMissing) {
  for (const auto* part : {"transformer", "text_encoder", "vae", "tokenizer"}) {
    const TempFolder folder;
    make_diffusers(folder.path());
    fs::remove_all(folder / part);
    expect_error(ErrorCode::not_found, part, [&] { open_model(folder.path()); });
  }
  const TempFolder folder;
  make_diffusers(folder.path());
  fs::remove(folder / "vae/diffusion_pytorch_model.safetensors");
  expect_error(ErrorCode::not_found, "diffusion_pytorch_model.safetensors",
               [&] { open_model(folder.path()); });
  put(folder / "vae/diffusion_pytorch_model.safetensors");
  put(folder / "model_index.json", R"({"transformer_2":["diffusers","WanTransformer3DModel"]})");
  expect_error(ErrorCode::not_found, "transformer_2", [&] { open_model(folder.path()); });
}

TEST(ModelLayout, Original) {
  const TempFolder folder;
  make_original(folder.path());
  const auto m = open_model(folder.path());
  EXPECT_EQ(m.layout, ModelFiles::Layout::original);
  EXPECT_EQ(m.transformer.weights, folder / "diffusion_pytorch_model.safetensors");
  EXPECT_EQ(m.text_encoder.weights, folder / "models_t5_umt5-xxl-enc-bf16.pth");
  EXPECT_EQ(m.text_encoder.config, nullptr);
  EXPECT_EQ(m.vae.weights, folder / "Wan2.1_VAE.pth");
  EXPECT_EQ(m.tokenizer, folder / "google/umt5-xxl");
  EXPECT_FALSE(is_component_folder(folder.path()));

  for (const auto* part :
       {"models_t5_umt5-xxl-enc-bf16.pth", "Wan2.1_VAE.pth", "google/umt5-xxl/spiece.model"}) {
    const TempFolder broken;
    make_original(broken.path());
    fs::remove(broken / part);
    expect_error(ErrorCode::not_found, fs::path(part).filename().string(),
                 [&] { open_model(broken.path()); });
  }
}

TEST(ModelLayout, OriginalWithTwoExperts) {
  const TempFolder folder;
  make_original(folder.path());
  fs::remove(folder / "diffusion_pytorch_model.safetensors");
  fs::remove(folder / "config.json");
  for (const auto* expert : {"high_noise_model", "low_noise_model"}) {
    put(folder.path() / expert / "config.json", kWanConfig);
    put(folder.path() / expert / "diffusion_pytorch_model.safetensors.index.json");
  }
  const auto m = open_model(folder.path());
  EXPECT_THAT(m.transformer.weights.string(), testing::HasSubstr("high_noise_model"));
  EXPECT_THAT(m.transformer_2.weights.string(), testing::HasSubstr("low_noise_model"));
}

TEST(ModelLayout, NotAModel) {
  const TempFolder folder;
  expect_error(ErrorCode::not_found, "no such folder", [&] { open_model(folder / "none"); });
  expect_error(ErrorCode::not_found, "model_index.json", [&] { open_model(folder.path()); });
  put(folder / "config.json");
  expect_error(ErrorCode::not_found, "single component", [&] { open_model(folder.path()); });
  expect_error(ErrorCode::invalid_argument, "expected a model folder",
               [&] { open_model(folder / "config.json"); });
  expect_error(ErrorCode::not_found, "expected weights", [&] { open_component(folder.path()); });
  put(folder / "model_index.json", "{\"transformer\":");
  expect_error(ErrorCode::corrupt, "model_index.json", [&] { open_model(folder.path()); });
}

TEST(ModelLayout, TwoUnknownWeightFilesAreAmbiguous) {
  const TempFolder folder;
  put(folder / "a.safetensors");
  put(folder / "b.safetensors");
  expect_error(ErrorCode::invalid_argument, "a.safetensors and b.safetensors",
               [&] { open_weights(folder.path()); });
}

TEST(JsonFile, RefusesWhatIsNotAnObject) {
  const TempFolder folder;
  const auto refuse = [&](const std::string& text, const std::string& reason) {
    put(folder / "c.json", text);
    expect_error(ErrorCode::corrupt, reason, [&] { read_json(folder / "c.json"); });
    expect_error(ErrorCode::corrupt, "c.json", [&] { read_json(folder / "c.json"); });
  };
  refuse("", "empty");
  refuse("[]", "got array");
  refuse("{\"a\":nan}", "byte");
  refuse("{\"a\":1e999}", "c.json");
  refuse("{\"a\":1", "byte 6");
  refuse("{\"a\":\"\xff\"}", "byte");
  refuse("{} {}", "byte");
  refuse("{\"a\":" + std::string(1'000'000, '['), "nested deeper");
  put(folder / "c.json", "{\"a\":\"[[[[\\\"{{{{\"}" + std::string(100, ' '));
  EXPECT_EQ(json_string(read_json(folder / "c.json"), "a", ""), "[[[[\"{{{{");
  expect_error(ErrorCode::corrupt, "limit is 50", [&] { read_json(folder / "c.json", 50); });
}

TEST(JsonFile, GettersCheckTypeAndRange) {
  const auto j =
      parse_json(R"({"i":7,"f":2.5,"whole":16.0,"neg":-3,"huge":18446744073709551615,"s":"x","b":true,
    "n":null,"list":[1,2,3],"mixed":[1,"2"]})",
                 "test");
  EXPECT_EQ(json_int(j, "i", 0, 0, 10), 7);
  EXPECT_EQ(json_int(j, "whole", 0, 0, 100), 16);
  EXPECT_EQ(json_int(j, "absent", 5, 0, 10), 5);
  EXPECT_EQ(json_int(j, "n", 5, 0, 10), 5);
  EXPECT_EQ(json_int(j, "neg", -10, 10), -3);
  EXPECT_EQ(json_double(j, "f", 0, 0, 10), 2.5);
  EXPECT_EQ(json_double(j, "i", 0, 0, 10), 7.0);
  EXPECT_TRUE(json_bool(j, "b", false));
  EXPECT_EQ(json_string(j, "s", "y"), "x");
  EXPECT_EQ(json_ints(j, "list", 0, 9, 3), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_TRUE(json_ints(j, "absent", 0, 9, 3).empty());
  EXPECT_EQ(json_doubles(j, "list", 3), (std::vector<double>{1, 2, 3}));
  expect_error(ErrorCode::corrupt, "i: expected an integer from 8 to 10",
               [&] { json_int(j, "i", 0, 8, 10); });
  expect_error(ErrorCode::corrupt, "f", [&] { json_int(j, "f", 0, 0, 10); });
  expect_error(ErrorCode::corrupt, "huge", [&] { json_int(j, "huge", 0, 0, INT64_MAX); });
  expect_error(ErrorCode::corrupt, "s", [&] { json_double(j, "s", 0, 0, 10); });
  expect_error(ErrorCode::corrupt, "i", [&] { json_bool(j, "i", false); });
  expect_error(ErrorCode::corrupt, "i", [&] { json_string(j, "i", ""); });
  expect_error(ErrorCode::not_found, "absent", [&] { json_int(j, "absent", 0, 10); });
  expect_error(ErrorCode::corrupt, "at most 2", [&] { json_ints(j, "list", 0, 9, 2); });
  expect_error(ErrorCode::corrupt, "mixed", [&] { json_ints(j, "mixed", 0, 9, 3); });
  expect_error(ErrorCode::corrupt, "mixed", [&] { json_doubles(j, "mixed", 3); });
}

}  // namespace
}  // namespace tachy::test
