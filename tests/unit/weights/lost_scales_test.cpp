// Tests quantised files that have lost a part: some of the scales, or the value of a scale. Each of these
// files was once read without an error.
#include <cmath>
#include <limits>

#include "support.h"
#include "weights/quantized/quantized_source.h"
#include "weights/safetensors.h"
#include "weights/scope.h"

namespace tachy::test {
namespace {

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
RawTensor fp8(const std::string& name) { return {name, "F8_E4M3", "[2,32]", std::string(64, '\x38')}; }
RawTensor scale(const std::string& name, const std::vector<float>& values = {0.5f}) {
  return {name, "F32", values.size() == 1 ? "[]" : fmt::format("[{}]", values.size()), floats(values)};
}
const RawTensor kMarker = {"scaled_fp8", "F8_E4M3", "[2]", std::string(2, '\0')};

std::shared_ptr<TensorSource> read(const std::vector<RawTensor>& tensors) {
  static const TempFolder folder;
  return dequantized(open_safetensors(write_bytes(folder / "q.safetensors", safetensors_bytes(tensors))));
}
void refused(const std::vector<RawTensor>& tensors, const std::vector<std::string>& says) {
  for (const std::string& text : says) expect_error(ErrorCode::corrupt, text, [&] { read(tensors); });
}

TEST(LostScales, AWeightWithoutAScaleBesideOthersThatHaveOne) {
  const RawTensor q = fp8("blocks.0.self_attn.q.weight"), k = fp8("blocks.0.self_attn.k.weight");
  for (const char* leaf : {"scale_weight", "weight_scale"}) {
    const RawTensor scale_q = scale(std::string("blocks.0.self_attn.q.") + leaf);
    const std::vector<std::string> says = {"q.safetensors: tensor \"blocks.0.self_attn.k.weight\"",
                                           "no scale", scale_q.name};
    refused({kMarker, q, scale_q, k}, says);
    refused({q, scale_q, k}, says);  // without the marker, as LightX2V and musubi-tuner write them
  }
  RawTensor e5m2 = k;
  e5m2.dtype = "F8_E5M2";
  refused({q, scale("blocks.0.self_attn.q.scale_weight"), e5m2}, {"blocks.0.self_attn.k.weight", "f8_e5m2"});
  refused({fp8("model.diffusion_model.head.head.weight"), q, scale("blocks.0.self_attn.q.scale_weight"), k},
          {"blocks.0.self_attn.k.weight"});
}

TEST(LostScales, FilesWithoutAnyAndWhatIsNeverScaled) {
  const std::vector<RawTensor> bare = {fp8("blocks.0.self_attn.q.weight"),
                                       fp8("blocks.0.self_attn.k.weight")};
  EXPECT_EQ(read(bare)->entries().size(), 2u);
  EXPECT_EQ(read({bare[0], bare[1], kMarker})->find("blocks.0.self_attn.k.weight")->dtype, DType::f8_e4m3);
  const auto beside = [&](RawTensor other) {
    const auto source = read({bare[0], scale("blocks.0.self_attn.q.scale_weight"), other});
    EXPECT_EQ(source->find(other.name)->derived, nullptr) << other.name;
  };
  beside(fp8("shared.weight"));
  beside(fp8("encoder.embed_tokens.weight"));
  beside(fp8("token_embedding.weight"));
  beside(fp8("blocks.0.pos_embedding.embedding.weight"));
  beside({"patch_embedding.weight", "F8_E4M3", "[2,4,1,2,2]", std::string(32, '\1')});
  beside({"blocks.0.norm3.weight", "F8_E4M3", "[8]", std::string(8, '\1')});
  beside({"blocks.0.self_attn.k.weight", "BF16", "[2,2]", std::string(8, '\1')});
  // The file beside it is another part, which has no scale at all.
  beside(fp8("model.diffusion_model.blocks.0.self_attn.k.weight"));
}

TEST(LostScales, ScalesThatAreNoNumbersOrNothing) {
  const RawTensor weight = fp8("a.weight");
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  refused({weight, scale("a.weight_scale", {nan})}, {"\"a.weight_scale\"", "value 0", "nan"});
  refused({weight, scale("a.weight_scale", {1, inf})}, {"\"a.weight_scale\"", "value 1", "inf"});
  refused({weight, scale("a.scale_weight", {0})}, {"\"a.scale_weight\"", "\"a.weight\" would be lost"});
  refused({weight, scale("a.weight_scale", {1, 0})}, {"value 1 of this scale is 0"});
  refused({weight, scale("a.weight_scale", {1, 1}), scale("a.pre_quant_scale", std::vector<float>(32, nan))},
          {"\"a.pre_quant_scale\"", "nan"});
  std::vector<float> columns(32, 1.0f);
  columns[7] = 0;
  refused({weight, scale("a.weight_scale", {1, 1}), scale("a.pre_quant_scale", columns)}, {"factor 7 is 0"});
  refused({{"a.weight", "I8", "[2,32]", std::string(64, '\1')}, scale("a.weight_scale", {0, 1})},
          {"value 0"});
  // A row of zeros may have the scale 0, and so may a weight of zeros.
  const RawTensor zeros = {"a.weight", "F8_E4M3", "[2,32]",
                           std::string(32, '\x38') + std::string(32, '\x80')};
  EXPECT_NE(read({zeros, scale("a.weight_scale", {1, 0})})->find("a.weight")->derived, nullptr);
  refused({zeros, scale("a.weight_scale", {0, 1})}, {"value 0"});
}

TEST(LostScales, ScalesOfBlocksAreCheckedAsTheyAreUsed) {
  const RawTensor blocks = {"a.weight_scale", "F32", "[2,2,1]", floats({1, 1, 1, std::nanf("")})};
  const auto source = read({fp8("a.weight"), blocks});
  const auto& entry = *source->find("a.weight");
  expect_error(ErrorCode::corrupt, "q.safetensors: tensor \"a.weight\": the scale of block 1 of row 1 is nan",
               [&] {
                 Scope(source).tensor("a.weight", {2, 32});
               });
  expect_error(ErrorCode::corrupt, "block 1 of row 1", [&] { entry.derived->stored(2, 32); });
  const std::string format = R"({"format":"mxfp8"})";
  std::string tiles(512, '\x7f');
  tiles[16] = '\xff';  // this is the only block of row 1
  const auto mx = read({fp8("a.weight"),
                        {"a.weight_scale", "F8_E8M0", "[128,4]", tiles},
                        {"a.comfy_quant", "U8", fmt::format("[{}]", format.size()), format}});
  expect_error(ErrorCode::corrupt, "block 0 of row 1 is nan", [&] { Scope(mx).tensor("a.weight", {2, 32}); });
}

}  // namespace
}  // namespace tachy::test
