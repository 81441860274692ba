// Tests the published models' shapes: names, sizes of weights and of state, config files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "wan_vae_golden.h"

namespace tachy::test {
namespace {

// All tensors of a published model share one mapping of zeros that nothing reads.
struct ShapeOnly {
  static constexpr size_t kBytes = size_t{1} << 30;
  explicit ShapeOnly(const std::string& name) : names(read_json(kVaeGolden + name)) {
    zeros = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~ShapeOnly() { ::munmap(zeros, kBytes); }
  std::shared_ptr<TensorSource> source(const std::string& without = "") const {
    std::vector<TensorSource::Entry> entries;
    for (const auto& [name, shape] : names.items()) {
      if (name == without) continue;
      TensorSource::Entry e{
          .name = name, .name_in_file = name, .dims = shape.get<std::vector<int64_t>>(), .data = zeros};
      e.bytes = 4;
      for (int64_t extent : e.dims) e.bytes *= static_cast<uint64_t>(extent);
      EXPECT_LE(e.bytes, kBytes);
      entries.push_back(std::move(e));
    }
    return std::make_shared<TensorSource>(std::move(entries),
                                          std::vector<std::shared_ptr<const MappedFile>>{});
  }
  nlohmann::json names;
  void* zeros;
};

class Published : public testing::TestWithParam<const char*> {
 protected:
  VaeConfig config() const {
    return std::string(GetParam()) == "names_wan21.json" ? VaeConfig::wan21() : VaeConfig::wan22();
  }
};

// Each tensor of the file is read by exactly one half, and both halves together need no others.
TEST_P(Published, ReadsEveryTensor) {
  const ShapeOnly model(GetParam());
  Runner runner;
  Stream stream = runner.measuring();
  const auto reads = [&](const std::string& without, bool decoder) {
    try {
      const auto make = [&](const Scope& s) {
        if (decoder)
          VaeDecoder(s, config(), {}, stream);
        else
          VaeEncoder(s, config(), {}, stream);
        return 0;
      };
      load_component(model.source(without), "vae",
                     {"encoder.", "decoder.", "quant_conv.", "post_quant_conv."}, make);
      return false;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::not_found) << e.what();
      EXPECT_THAT(e.message(), testing::HasSubstr(without));
      return true;
    }
  };
  EXPECT_FALSE(reads("nothing", true));
  EXPECT_FALSE(reads("nothing", false));
  for (const auto& [name, shape] : model.names.items()) {
    const bool decodes = name.starts_with("decoder.") || name.starts_with("post_quant_conv.");
    EXPECT_EQ(reads(name, true), decodes) << name;
    EXPECT_EQ(reads(name, false), !decodes) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Published, testing::Values("names_wan21.json", "names_wan22.json"),
                         [](const auto& info) { return std::string(info.param).substr(6, 5); });

TEST(WanVaePlan, StateOfThePublishedModels) {
  const ShapeOnly model("names_wan21.json"), model22("names_wan22.json");
  Runner runner;
  Stream stream = runner.measuring();
  const VaeDecoder decoder(Scope(model.source()), VaeConfig::wan21(), {}, stream);
  const VaeEncoder encoder(Scope(model.source()), VaeConfig::wan21(), {}, stream);
  const VaeDecoder decoder22(Scope(model22.source()), VaeConfig::wan22(), {}, stream);
  const VaeEncoder encoder22(Scope(model22.source()), VaeConfig::wan22(), {}, stream);
  // The number of elements per latent pixel was counted in the reference. Here every cache is a multiple of
  // 256 bytes.
  EXPECT_EQ(decoder.state_bytes(64, 96, 21), size_t{151328} * 64 * 96 * 4);
  EXPECT_EQ(encoder.state_bytes(512, 768, 81), size_t{89856} * 64 * 96 * 4);
  EXPECT_EQ(decoder22.state_bytes(64, 96, 21), size_t{456800} * 64 * 96 * 4);
  EXPECT_EQ(encoder22.state_bytes(1024, 1536, 81), size_t{150656} * 64 * 96 * 4);
  EXPECT_EQ(decoder.state_bytes(64, 96, 1), 0u);
  EXPECT_EQ(encoder.state_bytes(512, 768, 4), 0u);
}

// Decoding needs three tensors of a steady chunk at full resolution (the activation and two for a block's
// scratch), the frames, and the memory of the convolutions themselves.
TEST(WanVaePlan, DecodingNeedsAboutThreeActivations) {
  const ShapeOnly model("names_wan21.json");
  Runner runner;
  Stream stream = runner.measuring();
  const VaeDecoder decoder(Scope(model.source()), VaeConfig::wan21(), {}, stream);
  const Tensor latents(nullptr, DType::f32, {16, 4, 60, 104}, Device::null);
  decoder.decode(latents, {}, stream);
  const double unit = 4.0 * 480 * 832 * 96 * 4, frames = unit / 32;
  EXPECT_GE(static_cast<double>(runner.arena.peak()), 3 * unit + frames);
  EXPECT_LE(static_cast<double>(runner.arena.peak()), 3 * unit + frames + 64e6);
}

TEST(WanVaePlan, AStreamInOtherNumbersIsRefused) {
  const ShapeOnly model("names_wan21.json");
  Runner runner;
  Stream stream = runner.measuring();
  const VaeDecoder decoder(Scope(model.source()), VaeConfig::wan21(), {}, stream);
  const Tensor latents(nullptr, DType::f32, {16, 1, 8, 8}, Device::null);
  EXPECT_NO_THROW(decoder.decode(latents, {}, stream));
  stream.precision.compute = Compute::bf16;
  EXPECT_THROW(decoder.decode(latents, {}, stream), Error);
}

TEST(WanVaeConfig, ReadsTheFile) {
  const VaeConfig defaults = VaeConfig::from_json(parse_json("{}", "config"));
  EXPECT_EQ(defaults.base_dim, 96);
  EXPECT_EQ(defaults.latents_std.at(8), 3.2687f);
  const VaeConfig c = VaeConfig::from_json(parse_json(
      R"({"base_dim": 40, "decoder_base_dim": null, "z_dim": 4, "dim_mult": [1, 2], "temperal_downsample": [true],
          "patch_size": null, "attn_scales": [], "dropout": 0.0, "latents_mean": [0, 1, 2, 3], "latents_std": [1, 1, 1, 2]})",
      "config"));
  EXPECT_EQ(c.decoder_base_dim, 40);
  EXPECT_EQ(c.patch_size, 1);
  EXPECT_EQ(c.temporal_stride(), 2);
  EXPECT_EQ(c.spatial_stride(), 2);
  EXPECT_EQ(c.latent_frames(9), 5);
  EXPECT_EQ(c.pixel_frames(5), 9);
  const VaeConfig wan = VaeConfig::wan21();
  EXPECT_EQ(wan.latent_frames(81), 21);
  EXPECT_EQ(wan.latent_frames(84), 21);
  EXPECT_EQ(wan.pixel_frames(21), 81);
  EXPECT_EQ(VaeConfig::wan22().spatial_stride(), 16);
}

TEST(WanVaeConfig, RefusesWhatCannotWork) {
  for (const char* text :
       {R"({"temperal_downsample": [true]})", R"({"temperal_downsample": [true, true, true]})",
        R"({"temperal_downsample": [1, 0, 1]})", R"({"attn_scales": [0.5]})", R"({"base_dim": 0})",
        R"({"base_dim": 7})", R"({"base_dim": 5000})", R"({"patch_size": 2})",
        R"({"z_dim": 8, "latents_mean": [0], "latents_std": [1]})",
        R"({"z_dim": 1, "latents_mean": [0], "latents_std": [0]})", R"({"dim_mult": [1, -1]})",
        R"({"num_res_blocks": 1e9})"})
    EXPECT_THROW(VaeConfig::from_json(parse_json(text, "config")), Error) << text;
}

TEST(WanVaeConfig, NormalisingNeedsTheStatistics) {
  const ShapeOnly model("names_wan21.json");
  Runner runner;
  Stream stream = runner.measuring();
  VaeConfig c = VaeConfig::wan21();
  c.latents_mean.clear(), c.latents_std.clear();
  const Scope scope(model.source());
  EXPECT_THROW(VaeDecoder(scope, c, {.normalised = true}, stream), Error);
  EXPECT_THROW(VaeEncoder(scope, c, {.normalised = true}, stream), Error);
  EXPECT_NO_THROW(VaeDecoder(scope, c, {.normalised = false}, stream));
}

}  // namespace
}  // namespace tachy::test
