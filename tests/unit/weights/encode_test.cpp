// Encoders are compared with the gguf package and torch, bit for bit; files whose data is written piece by
// piece are read back.
#include <numeric>
#include <set>

#include "support.h"
#include "weights/entry_values.h"
#include "weights/file_layout.h"
#include "weights/gguf/gguf.h"
#include "weights/gguf/gguf_encode.h"
#include "weights/output_file.h"
#include "weights/quantized/scaled_encode.h"
#include "weights/safetensors.h"

namespace tachy::test {
namespace {

std::vector<float> values_of(const TensorSource::Entry& entry) {
  std::vector<float> out(static_cast<size_t>(value_count(entry)));
  entry_values(entry, 0, out);
  return out;
}

std::vector<std::byte> encoded(const GgufType& type, std::span<const float> values) {
  const auto blocks = static_cast<int64_t>(values.size()) / type.block_values;
  std::vector<std::byte> out(static_cast<size_t>(blocks * type.block_bytes));
  gguf_encoder(type)(values.data(), blocks, out.data());
  return out;
}

TEST(Encode, BlocksEqualThoseOfTheReference) {
  const auto golden_file = open_weights(golden("encoded.safetensors"));
  const std::vector<float> values = values_of(*golden_file->find("values"));
  int compared = 0;
  for (const std::string_view name : encodable_gguf_types()) {
    if (name == "f32") continue;
    const GgufType& type = *find_gguf_type(name);
    const auto* want = golden_file->find(name);
    ASSERT_NE(want, nullptr) << name;
    const std::vector<std::byte> got = encoded(type, values);
    ASSERT_EQ(got.size(), want->bytes) << name;
    const auto* bytes = static_cast<const std::byte*>(want->data);
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(static_cast<int>(got[i]), static_cast<int>(bytes[i]))
          << name << " byte " << i % static_cast<size_t>(type.block_bytes) << " of block "
          << i / static_cast<size_t>(type.block_bytes);
    ++compared;
  }
  EXPECT_EQ(compared, 7);
}

TEST(Encode, EightBitsWithScalesEqualTorchs) {
  const auto golden_file = open_weights(golden("encoded.safetensors"));
  const auto& entry = *golden_file->find("values");
  const std::vector<float> values = values_of(entry);
  const auto rows = static_cast<size_t>(entry.dims[0]), width = static_cast<size_t>(entry.dims[1]);
  const float scale = e4m3_scale(largest_magnitude(values));
  EXPECT_EQ(scale, element<float>(*golden_file->find("e4m3_scale"), 0));
  std::vector<uint8_t> codes(values.size());
  encode_e4m3(values, scale, codes.data());
  EXPECT_EQ(std::memcmp(codes.data(), golden_file->find("e4m3")->data, codes.size()), 0);
  for (size_t row = 0; row < rows; ++row) {
    const std::span<const float> one(values.data() + row * width, width);
    const float row_scale = int8_scale(largest_magnitude(one));
    EXPECT_EQ(row_scale, element<float>(*golden_file->find("int8_scale"), static_cast<int64_t>(row)));
    encode_int8(one, row_scale, reinterpret_cast<int8_t*>(codes.data()) + row * width);
  }
  EXPECT_EQ(std::memcmp(codes.data(), golden_file->find("int8")->data, codes.size()), 0);
}

TEST(Encode, WhatHasNoScaleStaysWithinItsCodes) {
  EXPECT_EQ(e4m3_scale(0), 1);
  EXPECT_EQ(e4m3_scale(1e-45f), 1) << "too small for a scale of its own";
  EXPECT_TRUE(std::isnan(largest_magnitude(std::vector<float>{1, NAN, 2})));
  EXPECT_EQ(largest_magnitude(std::vector<float>{1, -INFINITY, 2}), INFINITY);
  // Here 1 / d overflows: the codes are meaningless then, but still valid.
  std::vector<float> tiny(32);
  std::iota(tiny.begin(), tiny.end(), -16.0f);
  for (float& value : tiny) value *= 1e-42f;
  for (const std::string_view name : encodable_gguf_types()) {
    const GgufType& type = *find_gguf_type(name);
    const std::vector<std::byte> blocks = encoded(type, tiny);
    if (!type.decode) continue;
    std::vector<float> back(32, 1);
    type.decode(blocks.data(), 1, back.data());
    for (const float value : back) EXPECT_LT(std::abs(value), 1e-6f) << name;
  }
}

// The file has every type, a tensor with five dimensions, and one whose data does not end at a multiple of
// the alignment.
TEST(Encode, GgufFilesAreReadBack) {
  const TempFolder folder;
  const std::vector<int64_t> dims = {3, 64};
  std::vector<float> values(192);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 8;
  std::vector<StoredTensor> stored;
  for (const std::string_view name : encodable_gguf_types())
    stored.push_back({.name = std::string(name), .dims = dims, .type = find_gguf_type(name)});
  stored.push_back({.name = "kernel", .dims = {4, 3, 1, 4, 4}, .type = find_gguf_type("f32")});
  stored.push_back({.name = "odd", .dims = {3}, .type = find_gguf_type("f16")});
  const FileLayout layout =
      gguf_layout(stored, {{"general.architecture", std::string("wan")}, {"general.file_type", uint32_t{7}}});
  {
    OutputFile out(folder / "a.gguf");
    for (size_t i = stored.size(); i-- > 0;) {  // data may be written in any order
      const GgufType& type = *stored[i].type;
      const auto count = static_cast<int64_t>(stored[i].bytes()) / type.block_bytes;
      std::vector<std::byte> bytes(stored[i].bytes());
      gguf_encoder(type)(values.data(), count, bytes.data());
      out.write_at(layout.begins[i], bytes.data(), bytes.size());
    }
    out.write_at(0, layout.header.data(), layout.header.size());
    out.commit(layout.bytes);
  }
  EXPECT_EQ(fs::file_size(folder / "a.gguf"), layout.bytes);
  const auto source = open_weights(folder / "a.gguf");
  ASSERT_EQ(source->entries().size(), stored.size());
  EXPECT_EQ(source->metadata().at("general.architecture"), "wan");
  EXPECT_EQ(source->metadata().at("general.file_type"), "7");
  EXPECT_EQ(source->find("kernel")->dims, (std::vector<int64_t>{4, 3, 1, 4, 4}));
  const std::map<std::string, float> worst = {{"f32", 0},      {"bf16", 0},     {"f16", 0},
                                              {"q8_0", 0.03f}, {"q5_1", 0.25f}, {"q5_0", 0.4f},
                                              {"q4_1", 0.5f},  {"q4_0", 0.8f}};
  for (const auto& [name, bound] : worst) {
    const std::vector<float> back = values_of(*source->find(name));
    float error = 0;
    for (size_t i = 0; i < back.size(); ++i) error = std::max(error, std::abs(back[i] - values[i]));
    EXPECT_LE(error, bound) << name;
    EXPECT_EQ(error > 0, bound > 0) << name;
  }
  expect_error(ErrorCode::invalid_argument, "taken", [&] {
    gguf_layout(std::vector{stored[0], stored[0]}, {});
  });
  stored[7].dims = {3, 63};
  expect_error(ErrorCode::internal, "63", [&] { gguf_layout(stored, {}); });
}

TEST(Encode, ValuesOfEveryDtypeFromAnywhere) {
  const auto source = open_weights(golden("dtypes.safetensors"));
  for (const char* name : {"f32", "f16", "bf16", "f64", "f8_e4m3", "f8_e5m2", "rank6"}) {
    const auto& entry = *source->find(name);
    ASSERT_TRUE(has_values(entry)) << name;
    const int64_t count = value_count(entry);
    for (int64_t begin = 0; begin < count; ++begin) {
      std::vector<float> some(static_cast<size_t>(count - begin));
      entry_values(entry, begin, some);
      for (int64_t i = begin; i < count; ++i)
        EXPECT_EQ(some[static_cast<size_t>(i - begin)], ramp(i)) << name;
    }
    std::vector<float> beyond(static_cast<size_t>(count) + 1);
    expect_error(ErrorCode::internal, "values", [&] { entry_values(entry, 0, beyond); });
  }
  EXPECT_FALSE(has_values(*source->find("i32")));
  const auto blocks = open_weights(golden("blocks.gguf")),
             expected = open_weights(golden("blocks.safetensors"));
  EXPECT_EQ(values_of(*blocks->find("q8_0.weight")), values_of(*expected->find("q8_0.weight")));
}

TEST(OutputFile, AppearsWhenItIsComplete) {
  const TempFolder folder;
  const fs::path path = folder / "out.bin", other = folder / "out.bin.part",
                 left = folder / ".out.bin.999999999-0.part";
  const auto names = [&] {
    std::set<std::string> out;
    for (const auto& item : fs::directory_iterator(path.parent_path())) out.insert(item.path().filename());
    return out;
  };
  write_bytes(path, "old"), write_bytes(other, "somebody's"), write_bytes(left, "of a killed process");
  {
    OutputFile out(path), second(path);
    out.write_at(4, "abcd", 4), second.write_at(0, "x", 1);
    EXPECT_EQ(read_bytes(path), "old");
    EXPECT_EQ(names().size(), 4u) << "two of ours, and none of the killed process";
    out.commit(10);
  }
  EXPECT_EQ(read_bytes(path), std::string("\0\0\0\0abcd\0\0", 10)) << "the second one was not committed";
  EXPECT_EQ(names(), (std::set<std::string>{"out.bin", "out.bin.part"}));
  EXPECT_EQ(read_bytes(other), "somebody's");
}

}  // namespace
}  // namespace tachy::test
