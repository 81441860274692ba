// Tests `tachyscope import` as a user sees it: a graph of ComfyUI becomes a job that `generate --from` makes.
#include <nlohmann/json.hpp>

#include "binary.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Import : public CliTest {
 protected:
  // ComfyUI's folder of models with the tiny model in it. Its heads are not Wan's, so each part has its config beside it.
  void SetUp() override {
    CliTest::SetUp();
    put("transformer/diffusion_pytorch_model.safetensors", "transformer/config.json",
        "models/diffusion_models/wan/t2v");
    put("text_encoder/model.safetensors", "text_encoder/config.json", "models/text_encoders/umt5");
    put("vae/diffusion_pytorch_model.safetensors", "vae/config.json", "models/vae/vae");
    fs::copy_file(model_path() + "/tokenizer/tokenizer.json", path("models/text_encoders/tokenizer.json"));
    graph_ = json::parse(read_text(TACHY_SOURCE_DIR "/tests/fuzz/corpus/workflow/api_text"));
    graph_["2"]["inputs"]["strength_model"] = 0;
    graph_["7"]["inputs"] = {{"width", 32}, {"height", 32}, {"length", 5}, {"batch_size", 1}};
  }
  void put(const std::string& weights, const std::string& config, const std::string& to) {
    fs::create_directories(path(to).parent_path());
    fs::copy_file(model_path() + "/" + weights, path(to + ".safetensors"));
    fs::copy_file(model_path() + "/" + config, path(to + ".json"));
  }
  Done import(const std::vector<std::string>& more = {}) {
    write("graph.json", graph_.dump());
    std::vector<std::string> args{"import", "graph.json", "--models", "models"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }

  json graph_;
};

TEST_F(Import, TheJobIsMade) {
  const Done done = import({"-o", "job.json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.err, "");
  const json job = json::parse(read_text(path("job.json")));
  EXPECT_EQ(job["model"], "models/diffusion_models/wan/t2v.safetensors");
  EXPECT_EQ(job["grid"], "comfyui");
  const Done made = run({"generate", "--from", "job.json", "-o", "a/", "-t", "2"});
  ASSERT_EQ(made.code, 0) << made.err;
  json settings = json::parse(read_text(path("a/settings.json")));
  EXPECT_EQ(settings["num_frames"], 5);
  EXPECT_EQ(settings["seed"], UINT64_MAX);
  EXPECT_EQ(settings["num_inference_steps"], 4);
  EXPECT_TRUE(fs::exists(path("a/frame_0004.png")));
  EXPECT_EQ(json::parse(import().out), job) << "without -o it is printed";
}

TEST_F(Import, TwoExpertsChangeOverWhereTheSamplersDo) {
  put("transformer/diffusion_pytorch_model.safetensors", "transformer/config.json",
      "models/diffusion_models/low");
  const json size = graph_["7"];
  graph_ = json::parse(read_text(TACHY_SOURCE_DIR "/tests/fuzz/corpus/workflow/api_experts"));
  graph_["7"] = size;
  for (const char* lora : {"2", "32"}) graph_[lora]["inputs"]["strength_model"] = 0;
  ASSERT_EQ(import({"-o", "job.json"}).code, 0);
  const auto make = [&](const std::string& to, std::vector<std::string> more) {
    std::vector<std::string> args{"generate", "--from", "job.json", "-t", "2", "-o", to};
    args.insert(args.end(), more.begin(), more.end());
    const Done made = run(args);
    EXPECT_EQ(made.code, 0) << made.err;
    const std::string png = read_text(path(to + "frame_0001.png"));
    return png.substr(png.find("IDAT"));  // before that come the settings
  };
  const std::string three = make("a/", {});
  EXPECT_EQ(json::parse(read_text(path("a/settings.json")))["high_noise_steps"], 3);
  ASSERT_FALSE(three.empty());
  // Both experts are the same file here, so where they change shows in their guidance alone.
  EXPECT_NE(make("b/", {"--high-noise-steps", "7"}), three);
  EXPECT_EQ(make("c/", {"--high-noise-steps", "7", "--guidance-2", "4"}), make("d/", {"--guidance-2", "4"}));
  EXPECT_EQ(run({"generate", "--from", "job.json", "--high-noise-steps", "9", "-o", "e/"}).code, 2);
}

TEST_F(Import, NotesAndRefusals) {
  graph_["8"]["inputs"]["sampler_name"] = "uni_pc";
  const Done noted = import({"-o", "job.json"});
  EXPECT_EQ(noted.code, 0);
  EXPECT_THAT(noted.err, HasSubstr("note: node 8 KSampler, sampler_name: "));
  graph_["8"]["inputs"]["cfg"] = 0.5;
  Done done = import();
  EXPECT_EQ(done.code, 5);
  EXPECT_THAT(done.err, HasSubstr("node 8 KSampler, cfg: "));
  EXPECT_EQ(done.out, "");
  graph_["8"]["inputs"]["cfg"] = 5;
  graph_["1"]["inputs"]["unet_name"] = "gone.safetensors";
  done = import();
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err,
              AllOf(HasSubstr("node 1 UNETLoader, unet_name: "), HasSubstr("models/diffusion_models")));
  graph_["1"]["inputs"]["unet_name"] = "../../models/diffusion_models/wan/t2v.safetensors";
  EXPECT_EQ(import().code, 5) << "a name that leads out of the folder";
}

TEST_F(Import, PicturesComeFromTheInputFolder) {
  fs::create_directories(path("input"));
  fs::copy_file(golden("image_pipeline/first.png"), path("input/first.png"));
  graph_["7"] = {{"class_type", "Wan22ImageToVideoLatent"},
                 {"inputs",
                  {{"vae", {"9", 0}},
                   {"width", 32},
                   {"height", 32},
                   {"length", 5},
                   {"batch_size", 1},
                   {"start_image", {"20", 0}}}}};
  graph_["20"] = {{"class_type", "LoadImage"}, {"inputs", {{"image", "first.png"}}}};
  const Done done = import();
  ASSERT_EQ(done.code, 0) << done.err;
  const json job = json::parse(done.out);
  EXPECT_EQ(job["image"], "input/first.png");
  EXPECT_EQ(job["image_fit"], "crop");
  EXPECT_EQ(job["image_sha256"].get<std::string>().size(), 64u);
  fs::remove(path("input/first.png"));
  EXPECT_EQ(import().code, 3);
}

TEST_F(Import, WhatIsNoGraphSaysSo) {
  write("graph.json", "{\"nodes\": 5}");
  const Done done = run({"import", "graph.json", "--models", "models"});
  EXPECT_EQ(done.code, 4);
  EXPECT_THAT(done.err, HasSubstr("graph.json"));
  EXPECT_EQ(run({"import", "gone.json", "--models", "models"}).code, 3);
  EXPECT_EQ(run({"import", "graph.json", "--models", "gone"}).code, 3);
}

}  // namespace
}  // namespace tachy::test
