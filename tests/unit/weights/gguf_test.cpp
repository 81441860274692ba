// Values of every type, shapes, keys and names are compared, bit for bit, with what the gguf package reads
// from its own files.
#include "weights/gguf/gguf.h"

#include <fmt/format.h>

#include "support.h"
#include "weights/gguf/gguf_parts.h"
#include "weights/names/rename.h"
#include "weights/scope.h"

namespace tachy::test {
namespace {

std::vector<float> values_of(const TensorSource::Entry& entry) {
  int64_t count = 1;
  for (const int64_t extent : entry.dims) count *= extent;
  std::vector<float> out(static_cast<size_t>(count));
  if (entry.derived) {
    entry.derived->decode(0, Tensor(out.data(), DType::f32, {entry.dims[0], count / entry.dims[0]}));
    return out;
  }
  for (int64_t i = 0; i < count; ++i) {
    const auto number = [&]() -> float {
      switch (entry.dtype) {
        case DType::f32:
          return element<float>(entry, i);
        case DType::f16:
          return to_float(element<f16_t>(entry, i));
        case DType::bf16:
          return to_float(element<bf16_t>(entry, i));
        case DType::f64:
          return static_cast<float>(element<double>(entry, i));
        case DType::i8:
          return element<int8_t>(entry, i);
        case DType::i16:
          return element<int16_t>(entry, i);
        case DType::i32:
          return static_cast<float>(element<int32_t>(entry, i));
        default:
          return static_cast<float>(element<int64_t>(entry, i));
      }
    };
    out[static_cast<size_t>(i)] = number();
  }
  return out;
}

TEST(Gguf, EveryTypeEqualsTheReferenceBitByBit) {
  const auto source = open_weights(golden("blocks.gguf"));
  const auto expected = open_weights(golden("blocks.safetensors"));
  size_t quantised = 0;
  for (const auto& entry : expected->entries()) {
    const auto* found = source->find(entry.name);
    ASSERT_NE(found, nullptr) << entry.name;
    EXPECT_EQ(found->dims, entry.dims) << entry.name;
    if (found->derived) {
      ++quantised;
      EXPECT_EQ(found->data, nullptr) << entry.name;
      EXPECT_EQ(found->dtype, DType::f32) << entry.name;
    }
    const std::vector<float> values = values_of(*found);
    ASSERT_EQ(values.size() * 4, entry.bytes) << entry.name;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]),
                std::bit_cast<uint32_t>(element<float>(entry, static_cast<int64_t>(i))))
          << entry.name << " value " << i << ": " << values[i];
    }
  }
  EXPECT_EQ(quantised, 24u);  // 22 types, a restored shape and a vector
  EXPECT_EQ(source->entries().size(), expected->entries().size() + 1);
  EXPECT_EQ(source->find("q4_k.weight")->derived->encoding(), "q4_k");
}

TEST(Gguf, RowsAreDecodedAloneWhereverBlocksBegin) {
  const auto source = open_weights(golden("blocks.gguf"));
  for (const char* name : {"q8_0.weight", "q6_k.weight", "restored.weight", "line"}) {
    const auto& entry = *source->find(name);
    const std::vector<float> all = values_of(entry);
    const int64_t rows = entry.dims[0], width = static_cast<int64_t>(all.size()) / rows;
    for (int64_t first = 0; first < rows; ++first) {
      for (int64_t n = 1; n <= std::min<int64_t>(rows - first, 3); ++n) {
        std::vector<float> some(static_cast<size_t>(n * width));
        entry.derived->decode(first, Tensor(some.data(), DType::f32, {n, width}));
        ASSERT_EQ(std::memcmp(some.data(), all.data() + first * width, some.size() * 4), 0)
            << name << " rows " << first << " to " << first + n;
      }
    }
    std::vector<float> beyond(static_cast<size_t>(width));
    expect_error(ErrorCode::internal, "rows", [&] {
      entry.derived->decode(rows, Tensor(beyond.data(), DType::f32, {1, width}));
    });
  }
}

TEST(Gguf, ScopeMakesTheValuesOfBlocks) {
  const Scope scope(open_weights(golden("blocks.gguf")));
  const Tensor weight = scope.tensor("q5_k.weight", {4, 256});
  ASSERT_EQ(weight.dtype, DType::f32);
  const std::vector<float> exact = values_of(*scope.source().find("q5_k.weight"));
  EXPECT_EQ(std::memcmp(weight.data, exact.data(), exact.size() * sizeof(float)), 0);
  expect_error(ErrorCode::unsupported, "type nvfp4 is not read", [&] { scope.tensor("other", {1, 64}); });
  expect_error(ErrorCode::corrupt, "expected shape [4, 128], got [4, 256]", [&] {
    scope.tensor("q5_k.weight", {4, 128});
  });
}

TEST(Gguf, KeysOfEveryKind) {
  const auto source = open_weights(golden("blocks.gguf"));
  const auto& about = source->metadata();
  EXPECT_EQ(about.at("general.architecture"), "wan");
  EXPECT_EQ(about.at("test.string"), "x \u00e9");
  const std::pair<const char*, const char*> numbers[] = {
      {"test.bool", "true"}, {"test.u8", "255"},
      {"test.i8", "-1"},     {"test.u16", "65535"},
      {"test.i16", "-2"},    {"test.u32", "4294967295"},
      {"test.i32", "-3"},    {"test.u64", "18446744073709551615"},
      {"test.i64", "-4"},    {"test.f32", "0.5"},
      {"test.f64", "-0.25"}, {"general.alignment", "64"}};
  for (const auto& [key, text] : numbers) EXPECT_EQ(about.at(key), text) << key;
  EXPECT_FALSE(about.contains("test.integers"));

  const auto& file = *source->files()[0];
  const GgufHeader header(file.bytes(), file.path());
  EXPECT_EQ(header.version(), 3u);
  EXPECT_EQ(header.alignment(), 64u);
  EXPECT_EQ(header.integers("test.integers"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(header.floats("test.floats"), (std::vector<float>{0.5f, -0.5f}));
  EXPECT_EQ(header.texts("test.strings"), (std::vector<std::string_view>{"a", "", "\u00e9"}));
  EXPECT_EQ(header.flag("test.bool"), true);
  EXPECT_EQ(header.integer("test.i64"), -4);
  EXPECT_EQ(header.integer("absent"), std::nullopt);
  const auto wrong = [&](const std::string& expected, const std::function<void()>& action) {
    expect_error(ErrorCode::corrupt, "expected " + expected, action);
  };
  wrong("a string", [&] { header.text("test.u8"); });
  wrong("an integer", [&] { header.integer("test.string"); });
  wrong("an integer", [&] { header.integer("test.u64"); });
  wrong("an integer", [&] { header.integer("test.bool"); });
  wrong("a boolean", [&] { header.flag("test.u8"); });
  wrong("an array", [&] { header.integers("test.u8"); });
  wrong("integers", [&] { header.integers("test.floats"); });
  wrong("an array of float32", [&] { header.floats("test.integers"); });
  wrong("an array of strings", [&] { header.texts("test.integers"); });
  wrong("an array of bytes", [&] { header.bytes("test.strings"); });
  EXPECT_EQ(gguf_vocabulary(header, file.path()), std::nullopt);
}

TEST(Gguf, NamesOfTextEncoders) {
  const std::pair<const char*, const char*> names[] = {
      {"token_embd.weight", "shared.weight"},
      {"enc.output_norm.weight", "encoder.final_layer_norm.weight"},
      {"enc.blk.7.attn_norm.weight", "encoder.block.7.layer.0.layer_norm.weight"},
      {"enc.blk.0.attn_q.weight", "encoder.block.0.layer.0.SelfAttention.q.weight"},
      {"enc.blk.0.attn_k.weight", "encoder.block.0.layer.0.SelfAttention.k.weight"},
      {"enc.blk.0.attn_v.weight", "encoder.block.0.layer.0.SelfAttention.v.weight"},
      {"enc.blk.23.attn_o.weight", "encoder.block.23.layer.0.SelfAttention.o.weight"},
      {"enc.blk.1.attn_rel_b.weight", "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"},
      {"enc.blk.1.ffn_norm.weight", "encoder.block.1.layer.1.layer_norm.weight"},
      {"enc.blk.1.ffn_gate.weight", "encoder.block.1.layer.1.DenseReluDense.wi_0.weight"},
      {"enc.blk.1.ffn_up.weight", "encoder.block.1.layer.1.DenseReluDense.wi_1.weight"},
      {"enc.blk.1.ffn_down.weight", "encoder.block.1.layer.1.DenseReluDense.wo.weight"},
      {"dec.blk.0.attn_q.weight", "dec.blk.0.attn_q.weight"},
      {"enc.blk.x.attn_q.weight", "enc.blk.x.attn_q.weight"},
  };
  for (const auto& [from, to] : names) EXPECT_EQ(umt5_from_gguf(from), to);
  const auto source = std::make_shared<TensorSource>(
      std::vector<TensorSource::Entry>{{.name = "enc.blk.0.attn_q.weight"}, {.name = "token_embd.weight"}},
      std::vector<std::shared_ptr<const MappedFile>>{});
  const auto named = umt5_source(source);
  EXPECT_TRUE(named.source->has("shared.weight"));
  EXPECT_TRUE(named.source->has("encoder.block.0.layer.0.SelfAttention.q.weight"));
  EXPECT_FALSE(named.original);
}

TEST(Gguf, PatchEmbeddingsOfFourDimensionsAreRestored) {
  using Dims = std::vector<int64_t>;
  const auto restored = [](const Dims& dims) {
    const auto source = std::make_shared<TensorSource>(
        std::vector<TensorSource::Entry>{{.name = "patch_embedding.weight", .dims = dims},
                                         {.name = "patch_embedding.bias", .dims = {6}},
                                         {.name = "head.head.weight", .dims = {4, 6}}},
        std::vector<std::shared_ptr<const MappedFile>>{});
    return dit_source(source).source->find("patch_embedding.weight")->dims;
  };
  for (const Dims& dims : {Dims{18, 1, 2, 2}, Dims{6, 12}, Dims{6, 3, 2, 2}, Dims{72}})
    EXPECT_EQ(restored(dims), (Dims{6, 3, 1, 2, 2}));
  for (const Dims& dims : {Dims{12, 6}, Dims{6, 11}, Dims{3, 1, 2, 2}, Dims{6, 3, 2, 1, 2}, Dims{0, 6}})
    EXPECT_EQ(restored(dims), dims);
}

TEST(Gguf, FoldersAreSearchedForIt) {
  const TempFolder folder;
  const auto path = write_bytes(folder / "wan-Q4_K_M.gguf", read_bytes(golden("blocks.gguf")));
  EXPECT_EQ(find_weights(folder.path()), path);
  EXPECT_TRUE(open_weights(folder.path())->has("q4_k.weight"));
  EXPECT_TRUE(open_weights(path, FileAccess::read)->has("q4_k.weight"));
  // The file's name does not matter.
  fs::rename(path, folder / "model.safetensors");
  EXPECT_TRUE(open_weights(folder.path())->has("q4_k.weight"));
}

// The reference's writer makes split/ from tensors like those of blocks.gguf: three parts, with the keys in
// the first.
TEST(Gguf, PartsAreOneFile) {
  const auto whole = open_weights(golden("split/whole.gguf"));
  const fs::path folder = golden("split");
  for (int number = 1; number <= 3; ++number) {
    const auto source = open_weights(folder / fmt::format("m-{:05}-of-00003.gguf", number));
    EXPECT_EQ(source->files().size(), 3u);
    EXPECT_EQ(source->metadata().at("general.architecture"), "wan");
    EXPECT_EQ(source->metadata().at("split.no"), "0");
    ASSERT_EQ(source->entries().size(), whole->entries().size());
    for (const auto& entry : whole->entries()) {
      const auto* found = source->find(entry.name);
      ASSERT_NE(found, nullptr) << entry.name;
      EXPECT_EQ(found->dims, entry.dims) << entry.name;
      EXPECT_EQ(values_of(*found), values_of(entry)) << entry.name;
      EXPECT_THAT(source->file_of(*found), testing::HasSubstr("-of-00003.gguf"));
    }
  }
  // A folder with these parts counts as holding one file of weights.
  const TempFolder copy;
  for (int number = 1; number <= 3; ++number) {
    const std::string name = fmt::format("m-{:05}-of-00003.gguf", number);
    fs::copy_file(folder / name, copy / name);
  }
  EXPECT_EQ(find_weights(copy.path()), copy / "m-00001-of-00003.gguf");
  EXPECT_FALSE(is_later_gguf_part("m-00001-of-00003.gguf"));
  EXPECT_TRUE(is_later_gguf_part("m-00002-of-00003.gguf"));
  EXPECT_FALSE(is_later_gguf_part("m-00002-of-0003.gguf"));
  EXPECT_FALSE(is_later_gguf_part("m-0000a-of-00003.gguf"));
}

}  // namespace
}  // namespace tachy::test
