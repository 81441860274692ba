// Tests dtypes that no model computes with: float64 is narrowed once. Whole numbers in place of a weight, and
// dtypes that are not supported, are errors only for code that asks for these tensors.
#include "weights/plain_values.h"

#include "support.h"
#include "weights/names/rename.h"
#include "weights/scope.h"

namespace tachy::test {
namespace {

std::string doubles(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}
std::shared_ptr<TensorSource> read_file(const std::vector<RawTensor>& tensors) {
  static const TempFolder folder;
  return open_weights(write_bytes(folder / "v.safetensors", safetensors_bytes(tensors)));
}

TEST(PlainValues, Float64IsNarrowedOnce) {
  const std::vector<double> values = {1.0 / 3, -2.0 / 3, 1e300, 0.1, 5e-324, 16777217.0};
  const auto source = plain_values(read_file({{"a.weight", "F64", "[3,2]", doubles(values)}}));
  const auto& entry = *source->find("a.weight");
  ASSERT_NE(entry.derived, nullptr);
  EXPECT_EQ(entry.derived->encoding(), "f64");
  const Scope scope(source);
  const Tensor t = scope.tensor("a.weight", {3, 2});
  ASSERT_EQ(t.dtype, DType::f32);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(t.as<float>()[i], static_cast<float>(values[i])) << i;
  float row[2];
  entry.derived->decode(1, Tensor(row, DType::f32, {1, 2}));
  EXPECT_EQ(row[1], 0.1f);
}

TEST(PlainValues, WholeNumbersInAWeightsPlaceAreNamed) {
  for (const char* dtype : {"I8", "U8", "BOOL", "I16", "I32", "I64"}) {
    const size_t size = std::string(dtype).ends_with("64")   ? 8
                        : std::string(dtype).ends_with("32") ? 4
                        : std::string(dtype).ends_with("16") ? 2
                                                             : 1;
    const auto source = plain_values(read_file({{"a.weight", dtype, "[2]", std::string(2 * size, '\1')},
                                                {"steps", dtype, "[2]", std::string(2 * size, '\1')}}));
    const Scope scope(source);
    expect_error(ErrorCode::unsupported, "v.safetensors: tensor \"a.weight\": its values are whole numbers",
                 [&] { scope.tensor("a.weight", {2}); });
    EXPECT_NO_THROW(scope.tensor("steps", {2})) << dtype;
  }
}

TEST(PlainValues, ADtypeThatIsNotReadRefusesNothingButItself) {
  const RawTensor good = {"a.weight", "F32", "[2]", std::string(8, '\0')};
  const RawTensor others[] = {
      {"x", "U16", "[3]", std::string(6, '\1')},        {"x", "U32", "[3]", std::string(12, '\1')},
      {"x", "U64", "[3]", std::string(24, '\1')},       {"x", "C64", "[3]", std::string(24, '\1')},
      {"x", "F4", "[3,2]", std::string(3, '\1')},       {"x", "F6_E2M3", "[4]", std::string(3, '\1')},
      {"x", "F8_E5M2FNUZ", "[3]", std::string(3, '\1')}};
  for (const RawTensor& other : others) {
    const auto source = plain_source(read_file({good, other}));
    const Scope scope(source);
    EXPECT_NO_THROW(scope.tensor("a.weight", {2}));
    expect_error(ErrorCode::unsupported, "tensor \"x\": its dtype " + other.dtype + " is not read",
                 [&] { scope.tensor("x", {3}); });
    RawTensor longer = other;
    longer.data += std::string(1, '\1');
    expect_error(ErrorCode::corrupt, "does not take", [&] { read_file({good, longer}); });
  }
}

TEST(PlainValues, NamesOfWrappersAreTakenOut) {
  const std::string four(4, '\0');
  const auto source = plain_source(
      read_file({{"module._orig_mod.blocks.0._checkpoint_wrapped_module.ffn.0.weight", "F32", "[1]", four},
                 {"_fsdp_wrapped_module.head.head.bias", "F32", "[1]", four}}));
  EXPECT_TRUE(source->has("blocks.0.ffn.0.weight"));
  EXPECT_TRUE(source->has("head.head.bias"));
  const auto twice =
      read_file({{"module.a.weight", "F32", "[1]", four}, {"_orig_mod.a.weight", "F32", "[1]", four}});
  for (const char* says : {"\"module.a.weight\"", "\"_orig_mod.a.weight\"", "v.safetensors"})
    expect_error(ErrorCode::corrupt, says, [&] { plain_source(twice); });
  // Each map of names begins with this step.
  const auto dit = dit_source(
      read_file({{"module.patch_embedding.weight", "F32", "[1]", four},
                 {"module.blocks.0._fsdp_wrapped_module.self_attn.q.weight", "F32", "[1]", four}}));
  EXPECT_TRUE(dit.source->has("blocks.0.attn1.to_q.weight"));
  EXPECT_TRUE(
      umt5_source(read_file({{"_orig_mod.shared.weight", "F32", "[1]", four}})).source->has("shared.weight"));
  EXPECT_TRUE(
      vae_source(read_file({{"module.conv1.weight", "F32", "[1]", four}})).source->has("conv1.weight"));
  EXPECT_TRUE(clip_vision_source(read_file({{"module.vision_model.a.weight", "F32", "[1]", four}}))
                  .source->has("vision_model.a.weight"));
  EXPECT_TRUE(
      wav2vec2_source(read_file({{"_orig_mod.wav2vec2.a.weight", "F32", "[1]", four}}))->has("a.weight"));
  EXPECT_TRUE(
      infinitetalk_source(read_file({{"module.multitalk_audio_proj.norm.weight", "F32", "[1]", four}}))
          ->has("audio_proj.norm.weight"));
}

}  // namespace
}  // namespace tachy::test
