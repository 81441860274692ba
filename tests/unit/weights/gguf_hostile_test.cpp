// Tests every way in which a GGUF file can lie: each refusal names the file and the reason.
#include <fmt/format.h>

#include "support.h"
#include "weights/gguf/gguf.h"

namespace tachy::test {
namespace {

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}
std::string u32(uint32_t value) { return raw(value); }
std::string u64(uint64_t value) { return raw(value); }
std::string text(const std::string& value) { return u64(value.size()) + value; }

constexpr uint32_t kU8 = 0, kU32 = 4, kBool = 7, kString = 8, kArray = 9;
constexpr uint32_t kF32 = 0, kQ80 = 8;

std::string key(const std::string& name, uint32_t kind, const std::string& value) {
  return text(name) + u32(kind) + value;
}
std::string tensor(const std::string& name, const std::vector<uint64_t>& extents, uint32_t type,
                   uint64_t offset) {
  std::string out = text(name) + u32(static_cast<uint32_t>(extents.size()));
  for (const uint64_t extent : extents) out += u64(extent);
  return out + u32(type) + u64(offset);
}
std::string file(const std::vector<std::string>& keys, const std::vector<std::string>& tensors,
                 size_t data_bytes, size_t alignment = 32) {
  std::string out = "GGUF" + u32(3) + u64(tensors.size()) + u64(keys.size());
  for (const auto& part : keys) out += part;
  for (const auto& part : tensors) out += part;
  if (data_bytes == 0) return out;
  out.resize((out.size() + alignment - 1) / alignment * alignment + data_bytes, 'x');
  return out;
}

void refuses(const std::string& bytes, const std::string& reason, ErrorCode code = ErrorCode::corrupt) {
  const TempFolder folder;
  const auto path = write_bytes(folder / "bad.gguf", bytes);
  expect_error(code, reason, [&] { open_weights(path); });
  expect_error(code, "bad.gguf", [&] { open_weights(path); });
}
std::shared_ptr<TensorSource> opens(const std::string& bytes) {
  const TempFolder folder;
  return open_weights(write_bytes(folder / "good.gguf", bytes));
}

TEST(GgufHostile, TheSmallestFilesOpen) {
  EXPECT_EQ(opens(file({}, {}, 0))->entries().size(), 0u);
  std::string two = file({}, {tensor("a", {2}, kF32, 0)}, 8);
  two[4] = 2;
  EXPECT_EQ(opens(two)->find("a")->dims, std::vector<int64_t>{2});
  EXPECT_EQ(opens(file({}, {tensor("a", {}, kF32, 0)}, 4))->find("a")->dims, std::vector<int64_t>{1});
  EXPECT_EQ(opens(file({}, {tensor("a", {0, 4}, kF32, 0)}, 0))->find("a")->bytes, 0u);
  const auto both = opens(file({}, {tensor("a", {2, 3}, kF32, 32), tensor("b", {8}, kF32, 0)}, 56));
  EXPECT_EQ(both->find("a")->dims, (std::vector<int64_t>{3, 2}));
  // With 123 tensors the ninth byte is an opening brace, as in safetensors.
  std::vector<std::string> many;
  for (int i = 0; i < 123; ++i)
    many.push_back(tensor(fmt::format("t{}", i), {1}, kF32, 32 * static_cast<uint64_t>(i)));
  EXPECT_EQ(opens(file({}, many, 123 * 32))->entries().size(), 123u);
}

TEST(GgufHostile, VersionsAndByteOrder) {
  std::string bytes = file({}, {}, 0);
  for (const char version : {'\0', '\1', '\4'}) {
    bytes[4] = version;
    refuses(bytes, "version " + std::to_string(version) + " of GGUF is not read", ErrorCode::unsupported);
  }
  bytes.replace(4, 4, std::string("\0\0\0\3", 4));
  refuses(bytes, "byte 4: the file is big endian", ErrorCode::unsupported);
}

// Returns part `no`, counted from 0, of `count` parts of a split file, which claim that all of them together
// hold `tensors`.
std::string part(uint32_t no, uint32_t count, uint32_t tensors, const std::vector<std::string>& held,
                 std::vector<std::string> keys = {}) {
  keys.push_back(key("split.no", kU32, u32(no)));
  keys.push_back(key("split.count", kU32, u32(count)));
  keys.push_back(key("split.tensors.count", kU32, u32(tensors)));
  return file(keys, held, 4 * held.size());
}

TEST(GgufHostile, PartsThatAreNotEachOthers) {
  refuses(part(0, 3, 0, {}), "expected one that ends in -00001-of-00003.gguf", ErrorCode::not_found);
  refuses(part(3, 3, 0, {}), "part 3 of 3; up to");
  refuses(part(0, 1u << 30, 0, {}), "up to 4096");
  refuses(file({key("split.count", kString, text("3"))}, {}, 0), "expected an integer");
  const TempFolder folder;
  const auto put = [&](int number, const std::string& bytes) {
    return write_bytes(folder / fmt::format("m-{:05}-of-00002.gguf", number), bytes);
  };
  const std::string a = part(0, 2, 2, {tensor("a", {1}, kF32, 0)}),
                    b = part(1, 2, 2, {tensor("b", {1}, kF32, 0)});
  const fs::path first = put(1, a);
  const auto refused = [&](const std::string& reason, ErrorCode code = ErrorCode::corrupt) {
    expect_error(code, reason, [&] { open_weights(first); });
  };
  refused("part 2 of 2 is missing: m-00002-of-00002.gguf", ErrorCode::not_found);
  put(2, part(0, 2, 2, {}));
  refused("m-00002-of-00002.gguf: expected part 2 of 2 by its name, but its keys say split.no 0 of 2");
  put(2, part(1, 3, 2, {}));
  refused("split.no 1 of 3");
  put(2, file({}, {}, 0));
  refused("split.no -1 of 1");
  put(2, part(1, 2, 2, {}));
  refused("split.tensors.count: 2 tensors, but the 2 parts hold 1");
  put(2, part(1, 2, 2, {tensor("a", {1}, kF32, 0)}));
  refused("\"a\" twice");
  put(2, b.substr(0, 40));
  refused("m-00002-of-00002.gguf: byte");
  put(2, b);
  EXPECT_EQ(open_weights(first)->entries().size(), 2u);
}

TEST(GgufHostile, TruncatedAtEveryLength) {
  const std::string good = file({key("general.alignment", kU32, u32(32)), key("s", kString, text("abc")),
                                 key("l", kArray, u32(kString) + u64(2) + text("a") + text("bc"))},
                                {tensor("a", {32, 2}, kQ80, 0), tensor("b", {3}, kF32, 96)}, 108);
  const TempFolder folder;
  EXPECT_TRUE(opens_or_refuses(folder / "whole.gguf", good));
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(opens_or_refuses(folder / "cut.gguf", good.substr(0, length))) << length;
  refuses(good.substr(0, 30), "truncated");
  refuses(good.substr(0, good.size() - 1), "lie outside");
}

TEST(GgufHostile, EveryByteAndCountMayLie) {
  const std::string good = file({key("l", kArray, u32(kArray) + u64(1) + u32(kU8) + u64(2) + "ab")},
                                {tensor("a", {32, 2}, kQ80, 0)}, 68);
  const TempFolder folder;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      opens_or_refuses(folder / "flipped.gguf", bytes);
    }
  }
}

TEST(GgufHostile, HugeCounts) {
  const std::string head = "GGUF" + u32(3);
  refuses(head + u64(1ull << 63) + u64(0),
          "the number of tensors: 9223372036854775808, the limit is 1048576");
  refuses(head + u64(1000) + u64(0), "the number of tensors: 1000, but the file ends after 8 bytes");
  refuses(head + u64(0) + u64(1ull << 40), "the number of keys: 1099511627776, the limit");
  refuses(head + u64(0) + u64(1000) + std::string(100, '\0'), "the number of keys: 1000, but the file ends");
  refuses(file({u64(UINT64_MAX) + "a"}, {}, 64), "a key's name: 18446744073709551615, the limit is 65535");
  refuses(file({key("k", kString, u64(UINT64_MAX))}, {}, 64),
          "key \"k\": 18446744073709551615, but the file ends");
  refuses(file({key("k", kArray, u32(kU32) + u64(1ull << 62))}, {}, 64),
          "key \"k\": 4611686018427387904, but");
  refuses(file({key("k", kArray, u32(kString) + u64(1ull << 61))}, {}, 64), "but the file ends");
  refuses(file({key("k", kArray, u32(kArray) + u64(1ull << 61))}, {}, 64), "but the file ends");
}

TEST(GgufHostile, Keys) {
  refuses(file({key("k", 13, u32(0))}, {}, 0), "key \"k\" has the unknown kind 13");
  refuses(file({key("k", kArray, u32(77) + u64(0))}, {}, 0), "key \"k\" has the unknown kind 77");
  refuses(file({key("k", kBool, "\2")}, {}, 0), "expected a boolean, got 2");
  refuses(file({key("", kU8, "a")}, {}, 0), "a key's name is empty");
  refuses(file({key("k", kU8, "a"), key("k", kU8, "b")}, {}, 0), "key \"k\" appears twice");
  std::string nested;  // an array of one array of one array …
  for (int i = 0; i < 4; ++i) nested += u32(kArray) + u64(1);
  EXPECT_NO_THROW(opens(file({key("k", kArray, nested.substr(12) + u32(kU8) + u64(0))}, {}, 0)));
  refuses(file({key("k", kArray, nested + u32(kU8) + u64(0))}, {}, 0), "nested deeper than 4");
}

TEST(GgufHostile, Alignment) {
  for (const uint32_t bad : {0u, 3u, 48u})
    refuses(file({key("general.alignment", kU32, u32(bad))}, {}, 0),
            "general.alignment: expected a power of two, got " + std::to_string(bad));
  refuses(file({key("general.alignment", kString, text("32"))}, {}, 0), "expected an integer");
  const auto aligned = [](uint32_t alignment, uint64_t offset) {
    return file({key("general.alignment", kU32, u32(alignment))}, {tensor("a", {2}, kF32, offset)}, 72,
                alignment);
  };
  EXPECT_NO_THROW(opens(aligned(64, 64)));
  EXPECT_NO_THROW(opens(aligned(1, 13)));
  refuses(aligned(64, 32), "data offset 32 is not a multiple of 64");
  refuses(file({key("general.alignment", kU32, u32(1u << 31))}, {tensor("a", {2}, kF32, 0)}, 0),
          "lie outside the 0 bytes");
}

TEST(GgufHostile, Tensors) {
  refuses(file({}, {tensor("a", {2}, 99, 0)}, 64), "tensor \"a\": type 99 is unknown",
          ErrorCode::unsupported);
  refuses(file({}, {tensor("a", {1, 1, 1, 1, 1, 1, 1}, kF32, 0)}, 64), "7 dimensions, the limit is 6");
  refuses(file({}, {tensor("", {1}, kF32, 0)}, 64), "a tensor's name is empty");
  refuses(file({}, {tensor("a", {1}, kF32, 0), tensor("a", {1}, kF32, 32)}, 64), "distinct tensor names");
  refuses(file({}, {tensor("a", {1ull << 63}, kF32, 0)}, 64), "its shape is too large");
  refuses(file({}, {tensor("a", {1ull << 40, 1ull << 40}, kF32, 0)}, 64), "its shape is too large");
  refuses(file({}, {tensor("a", {0, 1ull << 40, 1ull << 40}, kF32, 0)}, 64), "its shape is too large");
  refuses(file({}, {tensor("a", {1ull << 62}, kF32, 0)}, 64), "its shape is too large");
  refuses(file({}, {tensor("a", {33, 32}, kQ80, 0)}, 4096), "rows of 33 values are no whole blocks of q8_0");
  refuses(file({}, {tensor("a", {32, 2}, kQ80, 0)}, 67), "68 bytes from 0 on lie outside the 67 bytes");
  refuses(file({}, {tensor("a", {8}, kF32, 64)}, 64), "32 bytes from 64 on lie outside the 64 bytes");
  refuses(file({}, {tensor("a", {1}, kF32, UINT64_MAX - 31)}, 64), "lie outside");
  refuses(file({}, {tensor("a", {9}, kF32, 0), tensor("b", {1}, kF32, 32)}, 64), "\"a\" and \"b\" overlap");
}

TEST(GgufHostile, RestoredShapes) {
  const auto restored = [](const std::string& shape) {
    return file({key("comfy.gguf.orig_shape.a", kArray, shape)}, {tensor("a", {32, 2}, kQ80, 0)}, 68);
  };
  const auto shape = [](const std::vector<uint32_t>& extents) {
    std::string out = u32(5) + u64(extents.size());
    for (const uint32_t extent : extents) out += u32(extent);
    return out;
  };
  EXPECT_EQ(opens(restored(shape({4, 2, 8})))->find("a")->dims, (std::vector<int64_t>{4, 2, 8}));
  refuses(restored(shape({4, 2, 9})), "cannot be that of comfy.gguf.orig_shape, [4, 2, 9]");
  refuses(restored(shape({})), "cannot be that");
  refuses(restored(shape({1, 1, 1, 1, 1, 1, 64})), "cannot be that");
  refuses(restored(shape({0xffffffff, 0xffffffc0})), "cannot be that");
  refuses(restored(u32(kString) + u64(1) + text("64")), "expected integers");
}

TEST(GgufHostile, Vocabularies) {
  const auto vocabulary = [](const std::string& model, int scores) {
    std::string list = u32(6) + u64(static_cast<uint64_t>(scores));
    for (int i = 0; i < scores; ++i) list += raw(-1.0f);
    const std::string bytes =
        file({key("tokenizer.ggml.model", kString, text(model)),
              key("tokenizer.ggml.tokens", kArray, u32(kString) + u64(2) + text("a") + text("b")),
              key("tokenizer.ggml.scores", kArray, list),
              key("tokenizer.ggml.token_type", kArray, u32(5) + u64(2) + u32(1) + u32(2))},
             {}, 0);
    const GgufHeader header(std::as_bytes(std::span(bytes)), "a.gguf");
    return gguf_vocabulary(header, "a.gguf")->pieces.size();
  };
  EXPECT_EQ(vocabulary("t5", 2), 2u);
  expect_error(ErrorCode::corrupt, "2 tokens, 3 scores and 2 types", [&] { vocabulary("t5", 3); });
  expect_error(ErrorCode::unsupported, "expected \"t5\"", [&] { vocabulary("llama", 2); });
}

}  // namespace
}  // namespace tachy::test
