// Tests `tachyscope stage`: the stages on golden tensors; wrong names and shapes are named in errors.
#include "binary.h"
#include "weights/safetensors.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

Tensor tensor(const TensorSource& source, const std::string& name) {
  const auto* entry = source.find(name);
  check(entry != nullptr, ErrorCode::not_found, "no '{}'", name);
  return Tensor(const_cast<void*>(entry->data), entry->dtype, entry->dims);
}

class Stage : public CliTest {
 protected:
  Stage() : golden_(open_safetensors(golden("pipeline/golden.safetensors"))) {}

  Done stage(const std::string& name, const std::vector<NamedTensor>& inputs,
             std::vector<std::string> more = {}) {
    std::vector<std::string> args{"stage", name, "--out", "out.safetensors"};
    if (!inputs.empty()) {
      write_safetensors(path("in.safetensors"), inputs);
      args.insert(args.end(), {"--in", "in.safetensors"});
    }
    args.insert(args.end(), more.begin(), more.end());
    fs::remove(path("out.safetensors"));
    return run(args);
  }
  Tensor want(const std::string& name) { return tensor(*golden_, name); }

  // Returns max|y − r| / max|r| for an output.
  double error(const std::string& output, const Tensor& r) {
    const auto source = open_safetensors(path("out.safetensors"));
    const Tensor y = tensor(*source, output);
    if (!same_shape(y, r) || y.dtype != r.dtype) return INFINITY;
    double worst = 0, scale = 0;
    for (int64_t i = 0; i < r.numel(); ++i) {
      const double got = r.dtype == DType::i64 ? static_cast<double>(y.as<int64_t>()[i]) : y.as<float>()[i];
      const double ref = r.dtype == DType::i64 ? static_cast<double>(r.as<int64_t>()[i]) : r.as<float>()[i];
      if (!std::isfinite(got)) return INFINITY;
      worst = std::max(worst, std::abs(got - ref)), scale = std::max(scale, std::abs(ref));
    }
    return worst / scale;
  }
  // Returns max(3e, 1e-5), because norms over the two channels of the tiny VAE also amplify the reference's
  // own rounding.
  double vae_bound(const std::string& output) {
    return std::max(3 * std::stod(golden_->metadata().at(output + "_float32_error")), 1e-5);
  }
  // Returns `prompt` filled up with zero rows to 512.
  Tensor padded_text() {
    const Tensor rows = want("prompt");
    text_.assign(static_cast<size_t>(512 * rows.dim(2)), 0.0f);
    std::copy_n(rows.as<float>(), rows.numel(), text_.begin());
    return Tensor(text_.data(), DType::f32, {1, 512, rows.dim(2)});
  }

  std::shared_ptr<TensorSource> golden_;
  std::vector<float> text_;
};

TEST_F(Stage, Tokenize) {
  for (const bool original : {false, true}) {
    const Done done =
        stage("tokenize", {}, {"-m", model_path(original), "--prompt", "the red cat moves, a bee sings"});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(error("input_ids", want("input_ids")), 0);
    EXPECT_EQ(error("attention_mask", want("attention_mask")), 0);
  }
}

TEST_F(Stage, TextEncoder) {
  const Tensor ids = want("input_ids");
  const int64_t length = want("prompt").dim(1);
  const Tensor cut(ids.data, DType::i64, {1, length});
  for (const std::string& model : {model_path(), model_path() + "/text_encoder", model_path(true)}) {
    const Done done = stage("text-encoder", {{"input_ids", cut}}, {"-m", model});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_LE(error("last_hidden_state", want("prompt")), 5e-6) << model;
  }
}

TEST_F(Stage, Transformer) {
  const std::vector<NamedTensor> inputs{{"hidden_states", want("hidden_states")},
                                        {"timestep", want("timestep")},
                                        {"encoder_hidden_states", padded_text()}};
  for (const char* weights : {"packed", "mapped"})
    for (const std::string& model : {model_path(), model_path() + "/transformer"}) {
      const Done done = stage("transformer", inputs, {"-m", model, "--weights", weights});
      ASSERT_EQ(done.code, 0) << done.err;
      EXPECT_LE(error("sample", want("sample")), 5e-6) << model;
    }
  ASSERT_EQ(stage("transformer", inputs, {"-m", model_path(true), "--sinusoid", "diffusers"}).code, 0);
  EXPECT_LE(error("sample", want("sample")), 5e-6) << "the original layout holds the same weights";
}

TEST_F(Stage, Vae) {
  for (const std::string& model : {model_path(), model_path() + "/vae", model_path(true)}) {
    ASSERT_EQ(stage("vae-decode", {{"latents", want("latents")}}, {"-m", model}).code, 0);
    EXPECT_LE(error("decoded", want("decoded")), vae_bound("decoded")) << model;
    ASSERT_EQ(stage("vae-encode", {{"video", want("video")}}, {"-m", model}).code, 0);
    EXPECT_LE(error("mean", want("mean")), vae_bound("mean")) << model;
    EXPECT_LE(error("logvar", want("logvar")), vae_bound("logvar")) << model;
  }
}

TEST_F(Stage, NoiseAndSampler) {
  ASSERT_EQ(stage("noise", {}, {"--seed", "7", "--shape", "1,16,2,4,6"}).code, 0);
  EXPECT_LE(error("noise", want("noise")), 2e-6);
  ASSERT_EQ(stage("noise", {}, {"--seed", "7", "--shape", "1,16,2,4,6", "--rng", "cuda"}).code, 0);
  EXPECT_GT(error("noise", want("noise")), 0.1);
  ASSERT_EQ(
      stage("sampler", {}, {"--sampler", "unipc", "--steps", "5", "--shift", "5", "--grid", "original"}).code,
      0);
  int64_t timesteps[] = {999, 952, 882, 768, 555};
  float sigmas[] = {.9997998f, .9521540f, .8820933f, .7689347f, .5552468f, 0};
  EXPECT_EQ(error("timesteps", Tensor(timesteps, DType::i64, {5})), 0);
  EXPECT_LE(error("sigmas", Tensor(sigmas, DType::f32, {6})), 1e-6);
}

TEST_F(Stage, WrongInputsAreNamed) {
  const Tensor x = want("hidden_states"), t = want("timestep"), text = padded_text(), ids = want("input_ids");
  const Tensor flat(x.data, DType::f32, {x.numel()}), odd(x.data, DType::f32, {1, 16, 1, 3, 5});
  const Tensor narrow(text.data, DType::f32, {1, 512, 12}), two(text.data, DType::f32, {2, 4, 24});
  const Tensor four(x.data, DType::f32, {1, 4, 2, 4, 6}), three(x.data, DType::f32, {3});
  struct Wrong {
    std::string name;
    std::vector<NamedTensor> inputs;
    int code;
    const char* says;
  };
  std::vector<int64_t> far{1, 64, 3};
  const Tensor outside(far.data(), DType::i64, {1, 3});
  const Tensor short_mask(ids.data, DType::i64, {1, 3});
  const Wrong cases[] = {
      {"transformer", {{"timestep", t}, {"encoder_hidden_states", text}}, 3, "hidden_states"},
      {"transformer", {{"hidden_states", x}, {"encoder_hidden_states", text}}, 3, "timestep"},
      {"transformer", {{"hidden_states", x}, {"timestep", t}}, 3, "encoder_hidden_states"},
      {"transformer",
       {{"hidden_states", flat}, {"timestep", t}, {"encoder_hidden_states", text}},
       2,
       "hidden_states"},
      {"transformer",
       {{"hidden_states", four}, {"timestep", t}, {"encoder_hidden_states", text}},
       2,
       "hidden_states"},
      {"transformer", {{"hidden_states", odd}, {"timestep", t}, {"encoder_hidden_states", text}}, 2, "1x3x5"},
      {"transformer",
       {{"hidden_states", x}, {"timestep", three}, {"encoder_hidden_states", text}},
       2,
       "timestep"},
      {"transformer",
       {{"hidden_states", x}, {"timestep", t}, {"encoder_hidden_states", narrow}},
       2,
       "encoder_hidden_states"},
      {"transformer",
       {{"hidden_states", x}, {"timestep", t}, {"encoder_hidden_states", two}},
       2,
       "encoder_hidden_states"},
      {"transformer",
       {{"hidden_states", x},
        {"timestep", t},
        {"encoder_hidden_states", text},
        {"encoder_hidden_states_image", text}},
       2,
       "encoder_hidden_states_image"},
      {"text-encoder", {{"attention_mask", ids}}, 3, "input_ids"},
      {"text-encoder", {{"input_ids", x}}, 2, "input_ids"},
      {"text-encoder", {{"input_ids", three}}, 2, "input_ids"},
      {"text-encoder", {{"input_ids", narrow.select(0, 0)}}, 2, "input_ids"},
      {"text-encoder", {{"input_ids", outside}}, 2, "64"},
      {"text-encoder", {{"input_ids", ids}, {"attention_mask", short_mask}}, 2, "attention_mask"},
      {"text-encoder",
       {{"input_ids", short_mask}, {"attention_mask", Tensor(x.data, DType::f32, {1, 3})}},
       2,
       "attention_mask"},
      {"vae-decode", {{"video", x}}, 3, "latents"},
      {"vae-decode", {{"latents", four}}, 2, "latents"},
      {"vae-encode", {{"latents", x}}, 3, "video"},
      {"vae-encode", {{"video", four}}, 2, "video"},
      {"vae-encode", {{"video", Tensor(x.data, DType::f32, {1, 3, 1, 12, 8})}}, 2, "8x12"},
  };
  for (const Wrong& wrong : cases) {
    const Done done = stage(wrong.name, wrong.inputs, {"-m", model_path()});
    std::string names;
    for (const auto& input : wrong.inputs) names += " " + input.name + shape_string(input.tensor);
    EXPECT_EQ(done.code, wrong.code) << wrong.name << names << ": " << done.err;
    EXPECT_THAT(done.err, HasSubstr(wrong.says)) << wrong.name << names;
    EXPECT_FALSE(fs::exists(path("out.safetensors")));
  }
}

TEST_F(Stage, ImageEncoderAndItsPictures) {
  const auto own = open_safetensors(golden("clip_vision/plain.safetensors"));
  const Tensor pixels = tensor(*own, "pixel_values");
  const std::string folder = golden("clip_vision/plain");
  for (const std::string& model : {folder, folder + "/model.safetensors"}) {  // the file's config lies beside
                                                                              // it
    const Done done = stage("image-encoder", {{"pixel_values", pixels}}, {"-m", model});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_LE(error("image_embeds", tensor(*own, "image_embeds")), 5e-6) << model;
  }
  const std::string picture = golden("image_pipeline/first.png");
  ASSERT_EQ(stage("image-processor", {}, {"-m", folder, "--image", picture}).code, 0);
  const auto source = open_safetensors(path("out.safetensors"));
  EXPECT_EQ(shape_string(tensor(*source, "pixel_values")), "[1, 3, 28, 28]");
  const Done wrong =
      stage("image-encoder", {{"pixel_values", pixels}}, {"-m", golden("clip_vision/projected")});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("[-1, 3, 42, 42]"));
  const Done text = stage("image-encoder", {{"pixel_values", pixels}}, {"-m", model_path()});
  EXPECT_EQ(text.code, 3);
  EXPECT_THAT(text.err, HasSubstr("no image encoder"));
}

TEST_F(Stage, AudioEncoder) {
  const auto own = open_safetensors(golden("wav2vec2/base.safetensors"));
  const Tensor samples = tensor(*own, "input_values"), clip = samples.view({1, -1});
  const std::string folder = golden("wav2vec2/base");
  for (const std::string& model : {folder, folder + "/model.safetensors"}) {
    // At 25 frames per second the clip makes 14 frames.
    const Done done = stage("audio-encoder", {{"input_values", clip}}, {"-m", model});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_LE(error("hidden_states", tensor(*own, "hidden_states_14")), 5e-6) << model;
  }
  ASSERT_EQ(stage("audio-encoder", {{"input_values", samples}}, {"-m", folder, "--shape", "61"}).code, 0);
  EXPECT_LE(error("hidden_states", tensor(*own, "hidden_states_61")), 5e-6);
  const Done brief = stage("audio-encoder", {{"input_values", samples.slice(0, 0, 399)}}, {"-m", folder});
  EXPECT_EQ(brief.code, 2);
  EXPECT_THAT(brief.err, HasSubstr("at least 400"));
  EXPECT_EQ(stage("audio-encoder", {{"input_values", samples}}, {"-m", folder, "--shape", "1,2"}).code, 2);
  const Done other = stage("audio-encoder", {{"input_values", samples}}, {"-m", golden("clip_vision/plain")});
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.err, HasSubstr("no wav2vec2"));
}

TEST_F(Stage, WrongOptions) {
  EXPECT_THAT(stage("frobnicate", {}).err, HasSubstr("vae-decode"));
  EXPECT_EQ(stage("frobnicate", {}).code, 2);
  EXPECT_EQ(stage("tokenize", {}, {"-p", "x"}).code, 2) << "no model";
  EXPECT_EQ(stage("vae-decode", {}, {"-m", model_path()}).code, 3) << "no input";
  EXPECT_EQ(stage("noise", {}, {"--shape", "1,x"}).code, 2);
  EXPECT_EQ(stage("noise", {}, {"--shape", "0"}).code, 2);
  EXPECT_EQ(stage("noise", {}, {"--shape", "99999999999,99999999999"}).code, 2);
  EXPECT_EQ(stage("noise", {}, {"--shape", "4", "--seed", "-3"}).code, 2);
  EXPECT_EQ(stage("noise", {}, {"--shape", "4", "--rng", "tpu"}).code, 2);
  EXPECT_EQ(stage("sampler", {}, {"--steps", "0"}).code, 2);
  EXPECT_EQ(stage("sampler", {}, {"--shift", "nan"}).code, 2);
  EXPECT_EQ(stage("sampler", {}, {"--sampler", "foo"}).code, 2);
  EXPECT_EQ(run({"stage", "noise", "--shape", "4", "--out", "nowhere/x.safetensors"}).code, 6);
  write("junk.safetensors", "not a safetensors file at all");
  EXPECT_EQ(
      run({"stage", "vae-decode", "-m", model_path(), "--in", "junk.safetensors", "--out", "o.safetensors"})
          .code,
      4);
}

}  // namespace
}  // namespace tachy::test
