// Quantised weights are compared with the values that torch and comfy-kitchen make from them
// (tests/golden/weights/make_quantized.py). Further tests cover every way in which scales may not fit.
#include <cmath>

#include "support.h"
#include "weights/names/rename.h"
#include "weights/quantized/quantized_source.h"
#include "weights/quantized/quantized_tensor.h"
#include "weights/safetensors.h"
#include "weights/scope.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<float> decoded(const TensorSource::Entry& entry, int64_t first, int64_t rows) {
  const int64_t width = entry.dims[1];
  std::vector<float> out(static_cast<size_t>(rows * width));
  entry.derived->decode(first, Tensor(out.data(), DType::f32, {rows, width}));
  return out;
}

// Expects all weights of a golden file to have the reference's values, to the bit, and the tensors that
// described them to be gone.
void expect_values(const std::string& name, size_t left) {
  const auto stored = open_safetensors(golden("quantized_" + name + ".safetensors"));
  const auto want = open_safetensors(golden("quantized_" + name + "_values.safetensors"));
  const auto made = dequantized(stored);
  EXPECT_EQ(made->entries().size(), left) << name;
  for (const auto& expected : want->entries()) {
    const auto* entry = made->find(expected.name);
    ASSERT_NE(entry, nullptr) << expected.name;
    ASSERT_NE(entry->derived, nullptr) << expected.name;
    EXPECT_EQ(entry->dtype, DType::f32);
    EXPECT_EQ(entry->dims, expected.dims);
    const int64_t rows = entry->dims[0];
    const std::vector<float> got = decoded(*entry, 0, rows);
    EXPECT_EQ(std::memcmp(got.data(), expected.data, got.size() * sizeof(float)), 0) << expected.name;
    const std::vector<float> part = decoded(*entry, rows - 2, 2);
    EXPECT_EQ(std::memcmp(part.data(), got.data() + (rows - 2) * entry->dims[1], part.size() * sizeof(float)),
              0);
    const Scope scope(made);
    const Tensor kept = scope.tensor(expected.name, std::span<const int64_t>(expected.dims));
    ASSERT_EQ(kept.dtype, DType::f32);
    EXPECT_EQ(std::memcmp(kept.data, got.data(), got.size() * sizeof(float)), 0) << expected.name;
  }
}

TEST(Quantized, ValuesAreTheReferences) {
  expect_values("comfy", 9);
  expect_values("old", 8);
  expect_values("lightx2v", 2);
  expect_values("header", 1);
}

TEST(Quantized, WhatIsNotQuantisedStays) {
  const auto comfy = dequantized(open_safetensors(golden("quantized_comfy.safetensors")));
  EXPECT_EQ(comfy->find("plain.weight")->derived, nullptr);
  EXPECT_NE(comfy->find("e4m3.bias")->data, nullptr);
  const auto plain = open_safetensors(golden("dtypes.safetensors"));
  EXPECT_EQ(dequantized(plain), plain);
}

TEST(Quantized, ScalesSurviveRenaming) {
  const auto dit = dit_source(open_safetensors(golden("quantized_old.safetensors")));
  EXPECT_TRUE(dit.original);
  for (const char* name : {"attn1.to_q", "attn1.to_k", "attn1.to_v", "ffn.net.0.proj", "ffn.net.2"}) {
    const auto* entry = dit.source->find(fmt::format("blocks.0.{}.weight", name));
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->derived->encoding(), "f8_e4m3 with scales");
  }
  EXPECT_EQ(dit.source->find("blocks.0.attn1.to_out.0.weight")->dtype, DType::bf16);
  EXPECT_EQ(dit.source->find("blocks.0.norm2.weight")->dtype, DType::f8_e4m3);
  EXPECT_EQ(dit.source->entries().size(), 8u);
}

TEST(Quantized, AllFourBitsAndScalesOfPowersOfTwo) {
  // The tiles of scales follow the layout's own description: 128 rows of 4 columns, in which rows that are 32
  // apart lie next to one another.
  EXPECT_EQ(tiled_place(0, 0, 5), 0);
  EXPECT_EQ(tiled_place(1, 0, 5), 16);
  EXPECT_EQ(tiled_place(32, 0, 5), 4);
  EXPECT_EQ(tiled_place(0, 4, 5), 512);
  EXPECT_EQ(tiled_place(128, 0, 5), 1024);
  EXPECT_EQ(tiled_bytes(136, 5), 256 * 8);
}

// One quantised layer as a file that a test can change.
struct Layer {
  std::map<std::string, std::string> header = {
      {"a.weight", R"("dtype":"F8_E4M3","shape":[2,32])"},
      {"a.weight_scale", R"("dtype":"F32","shape":[])"},
  };
  std::string metadata;

  std::shared_ptr<TensorSource> open(const TempFolder& folder) const {
    static const std::map<std::string, uint64_t> kBytes = {{"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I8", 1},
                                                           {"U8", 1},      {"F8_E8M0", 1}, {"F32", 4},
                                                           {"BF16", 2},    {"F64", 8},     {"I32", 4}};
    std::string text = "{", data;
    for (const auto& [name, about] : header) {
      const std::string content = name.ends_with("comfy_quant") ? about : "";
      uint64_t bytes = content.size();
      std::string fields = fmt::format(R"("dtype":"U8","shape":[{}])", bytes);
      if (content.empty()) {
        fields = about;
        bytes = kBytes.at(about.substr(9, about.find('"', 9) - 9));
        size_t at = about.find('[') + 1;
        while (about[at] != ']') {
          size_t used = 0;
          bytes *= std::stoull(about.substr(at), &used);
          at += used + (about[at + used] == ',');
        }
      }
      text += fmt::format(R"({}"{}":{{{},"data_offsets":[{},{}]}})", text.size() > 1 ? "," : "", name, fields,
                          data.size(), data.size() + bytes);
      data += content.empty() ? std::string(bytes, '\1') : content;
    }
    if (!metadata.empty()) text += R"(,"__metadata__":{"_quantization_metadata":")" + metadata + "\"}";
    write_bytes(folder / "q.safetensors", safetensors_bytes(text + "}", data));
    return dequantized(open_safetensors(folder / "q.safetensors"));
  }
};

struct Hostile {
  std::map<std::string, std::string> change;  // an entry with "" is removed
  ErrorCode code;
  std::vector<std::string> says;
};

TEST(Quantized, WhatDoesNotFitIsRefusedByName) {
  const std::string fp8 = R"("dtype":"F8_E4M3","shape":[2,32])", scalar = R"("dtype":"F32","shape":[])";
  const auto f32 = [](const std::string& shape) { return R"("dtype":"F32","shape":)" + shape; };
  const auto format = [](const std::string& name) { return R"({"format":")" + name + "\"}"; };
  const auto corrupt = ErrorCode::corrupt, unsupported = ErrorCode::unsupported;
  const Hostile cases[] = {
      {{{"a.weight", ""}}, corrupt, {"a.weight_scale", "a.weight\", which is missing"}},
      {{{"a.weight", R"("dtype":"BF16","shape":[2,32])"}},
       corrupt,
       {"a.weight_scale", "a.weight", "bf16", "8-bit"}},
      {{{"a.weight", R"("dtype":"U8","shape":[2,32])"}}, corrupt, {"a.weight_scale", "u8"}},
      {{{"a.weight", R"("dtype":"F8_E4M3","shape":[0,32])"}}, corrupt, {"a.weight", "without values"}},
      {{{"a.weight_scale", f32("[3]")}}, corrupt, {"a.weight_scale", "a.weight", "[3]", "[2, 1]"}},
      {{{"a.weight_scale", f32("[2,32]")}}, corrupt, {"a.weight_scale", "[2, 32]"}},
      {{{"a.weight_scale", f32("[1,2]")}}, corrupt, {"a.weight_scale", "[1, 2]"}},
      {{{"a.weight_scale", f32("[2,5,1]")}}, corrupt, {"a.weight_scale", "[2, 5, 1]"}},
      {{{"a.weight_scale", f32("[2,0,1]")}}, corrupt, {"a.weight_scale"}},
      {{{"a.weight_scale", f32("[0]")}}, corrupt, {"a.weight_scale"}},
      {{{"a.weight_scale", R"("dtype":"F64","shape":[])"}}, corrupt, {"a.weight_scale", "f64"}},
      {{{"a.scale_weight", scalar}}, corrupt, {"a.scale_weight", "a.weight_scale", "both"}},
      {{{"a.weight_scale_2", scalar}}, corrupt, {"a.weight_scale_2", "nvfp4"}},
      {{{"a.input_scale", f32("[2]")}}, corrupt, {"a.input_scale", "a.weight"}},
      {{{"a.pre_quant_scale", f32("[2]")}}, corrupt, {"a.pre_quant_scale", "[32] factors"}},
      {{{"a.weight_scale", ""}, {"a.pre_quant_scale", f32("[32]")}}, corrupt, {"a.weight_scale", "missing"}},
      {{{"a.weight_scale", ""}, {"a.comfy_quant", format("float8_e4m3fn")}},
       corrupt,
       {"a.weight", "a.weight_scale"}},
      {{{"a.comfy_quant", format("float8_e5m2")}}, corrupt, {"a.weight", "float8_e5m2", "f8_e4m3"}},
      {{{"a.comfy_quant", format("svdquant_w4a4")}}, unsupported, {"a.weight", "svdquant_w4a4", "nvfp4"}},
      {{{"a.comfy_quant", R"({"format":"int8_tensorwise","convrot":true})"}},
       unsupported,
       {"a.comfy_quant", "convrot"}},
      {{{"a.comfy_quant", R"({"format":7})"}}, corrupt, {"a.comfy_quant", "format"}},
      {{{"a.comfy_quant", "{}"}}, corrupt, {"a.comfy_quant", "format"}},
      {{{"a.comfy_quant", "{\"format\""}}, corrupt, {"a.comfy_quant", "byte"}},
      {{{"a.comfy_quant", std::string(70000, ' ')}}, corrupt, {"a.comfy_quant", "65536"}},
      {{{"a.comfy_quant", std::string(1000, '[')}}, corrupt, {"a.comfy_quant", "nested"}},
      {{{"a.comfy_quant", format("mxfp8")}}, corrupt, {"a.weight_scale", "blocks of 32", "512 bytes"}},
      {{{"a.weight", R"("dtype":"F8_E4M3","shape":[64])"}, {"a.comfy_quant", format("mxfp8")}},
       corrupt,
       {"a.weight", "[64]"}},
      {{{"a.weight", R"("dtype":"F8_E4M3","shape":[2,33])"}, {"a.comfy_quant", format("mxfp8")}},
       corrupt,
       {"a.weight", "multiple of 32"}},
      {{{"a.weight", R"("dtype":"U8","shape":[2,12])"}, {"a.comfy_quant", format("nvfp4")}},
       corrupt,
       {"a.weight", "multiple of 16"}},
      {{{"a.weight", R"("dtype":"U8","shape":[2,16])"},
        {"a.weight_scale", R"("dtype":"F8_E4M3","shape":[128,4])"},
        {"a.comfy_quant", format("nvfp4")}},
       corrupt,
       {"a.weight", "a.weight_scale_2"}},

      {{{"b.wscales", scalar}}, unsupported, {"b.wscales", "nunchaku"}},
      {{{"b.qzeros", scalar}}, unsupported, {"b.qzeros", "GPTQ"}},
      {{{"a.weight_scale", ""}, {"a.weight_scale_inv", scalar}}, unsupported, {"a.weight_scale_inv"}},
      {{{"a.weight_scale", ""}, {"a.scales", scalar}}, unsupported, {"a.scales", "a.weight"}},
      {{{"a.weight_zero_point", scalar}}, unsupported, {"a.weight_zero_point", "a.weight"}},
  };
  const TempFolder folder;
  EXPECT_EQ(Layer().open(folder)->entries().size(), 1u);
  for (const Hostile& kase : cases) {
    Layer layer;
    for (const auto& [name, about] : kase.change)
      about.empty() ? (void)layer.header.erase(name) : (void)(layer.header[name] = about);
    for (const std::string& text : kase.says) expect_error(kase.code, text, [&] { layer.open(folder); });
    expect_error(kase.code, "q.safetensors", [&] { layer.open(folder); });
  }
}

TEST(Quantized, MetadataIsChecked) {
  const TempFolder folder;
  const auto refuse = [&](const std::string& metadata, ErrorCode code, const std::string& text) {
    Layer layer;
    layer.metadata = metadata;
    expect_error(code, text, [&] { layer.open(folder); });
  };
  refuse("{", ErrorCode::corrupt, "_quantization_metadata");
  refuse("{}", ErrorCode::corrupt, "layers");
  refuse(R"({\"layers\":[]})", ErrorCode::corrupt, "layers");
  refuse(R"({\"layers\":{\"a\":3}})", ErrorCode::corrupt, "expected an object");
  refuse(R"({\"layers\":{\"\":{\"format\":\"float8_e4m3fn\"}}})", ErrorCode::corrupt, "expected an object");
  refuse(R"({\"layers\":{\"b\":{\"format\":\"float8_e4m3fn\"}}})", ErrorCode::corrupt, "b.weight");
  refuse(R"({\"layers\":{\"a\":{\"format\":\"awq\"}}})", ErrorCode::unsupported, "awq");
  Layer layer;
  layer.metadata = R"({\"layers\":{\"a\":{\"format\":\"float8_e4m3fn\"}}})";
  EXPECT_NE(layer.open(folder)->find("a.weight")->derived, nullptr);
  // Scales of inputs alone say nothing about a weight that is not quantised.
  layer.metadata.clear();
  layer.header = {{"a.weight", R"("dtype":"BF16","shape":[2,32])"},
                  {"a.input_scale", R"("dtype":"F32","shape":[])"}};
  EXPECT_EQ(layer.open(folder)->find("a.weight")->derived, nullptr);
}

// Each part of a model gets the float32 values that codes and scale stand for, which bfloat16 cannot hold,
// even if one matrix becomes three.
TEST(Quantized, EveryPartGetsFloat32Values) {
  const TempFolder folder;
  std::vector<uint8_t> codes(24);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = to_f8_e4m3(static_cast<float>(i) - 11).bits;
  float scale = 0.0123f, vector = 1;
  const std::string qkv = "visual.transformer.0.attn.to_qkv.";
  std::vector<NamedTensor> tensors = {{"visual.cls_embedding", Tensor(&vector, DType::f32, {1})}};
  for (const std::string& layer : {std::string("a."), qkv}) {
    tensors.push_back({layer + "weight", Tensor(codes.data(), DType::f8_e4m3, {6, 4})});
    tensors.push_back({layer + "scale_weight", Tensor(&scale, DType::f32, {1})});
  }
  const fs::path path = folder / "part.safetensors";
  write_safetensors(path, std::move(tensors));
  const auto file = open_safetensors(path);
  const auto expect_values = [&](const std::shared_ptr<TensorSource>& source, const std::string& name,
                                 int64_t first, int64_t rows) {
    const Scope scope(source);
    const Tensor kept = scope.tensor(name, {rows, 4});
    ASSERT_EQ(kept.dtype, DType::f32) << name;
    for (int64_t i = 0; i < rows * 4; ++i)
      EXPECT_EQ(kept.as<float>()[i], to_float(f8_e4m3_t{codes[static_cast<size_t>(first * 4 + i)]}) * scale)
          << name << " " << i;
  };
  for (const auto& source :
       {dit_source(file).source, umt5_source(file).source, vae_source(file).source, wav2vec2_source(file),
        infinitetalk_source(file), clip_vision_source(file).source})
    for (const auto& entry : source->entries())
      if (entry.name == "a.weight" || entry.name == "visual.a.weight")
        expect_values(source, entry.name, 0, 6);
  EXPECT_TRUE(dit_source(file).source->has("a.weight"));
  const auto clip = clip_vision_source(file).source;
  const std::string layer = "vision_model.encoder.layers.0.self_attn.";
  expect_values(clip, layer + "q_proj.weight", 0, 2);
  expect_values(clip, layer + "k_proj.weight", 2, 2);
  expect_values(clip, layer + "v_proj.weight", 4, 2);
}

}  // namespace
}  // namespace tachy::test
