// Reader and writer are compared with files of the reference library; further tests cover every way in which
// a file can lie.
#include "weights/safetensors.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <ctime>

#include "support.h"
#include "weights/scope.h"

namespace tachy::test {
namespace {

const std::string kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

void refuses(const std::string& header, const std::string& data, const std::string& reason) {
  const TempFolder folder;
  const auto path = write_bytes(folder / "bad.safetensors", safetensors_bytes(header, data));
  expect_error(ErrorCode::corrupt, reason, [&] { open_safetensors(path); });
  expect_error(ErrorCode::corrupt, "bad.safetensors", [&] { open_safetensors(path); });
}

// Expects an error for a file with one F32 tensor "a", with the given texts for shape and offsets, over 8
// bytes of data.
void refuses_tensor(const std::string& shape, const std::string& offsets, const std::string& reason) {
  refuses(R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
          std::string(8, 'x'), reason);
}

TEST(Safetensors, ReadsTheReferenceLibrarysFile) {
  const auto source = open_weights(golden("dtypes.safetensors"));
  expect_all_dtypes(*source);
  EXPECT_EQ(source->entries().size(), 15u);
  EXPECT_EQ(source->metadata().at("format"), "pt");
  EXPECT_EQ(source->metadata().at("note"), "x \u00e9");
  EXPECT_EQ(source->find("none"), nullptr);
  EXPECT_EQ(source->file_of(*source->find("f32")), golden("dtypes.safetensors").string());
}

TEST(Safetensors, RoundTripIsExactAndAligned) {
  const TempFolder folder;
  const auto source = open_weights(golden("dtypes.safetensors"));
  const Scope scope(source);
  std::vector<NamedTensor> tensors;
  for (const auto& e : source->entries()) tensors.push_back({e.name, scope.tensor(e.name, e.dims)});
  write_safetensors(folder / "out.safetensors", tensors, source->metadata());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "the file alone";
  const auto again = open_weights(folder / "out.safetensors");
  expect_all_dtypes(*again);
  EXPECT_EQ(again->metadata(), source->metadata());
  uint64_t header = 0;
  std::memcpy(&header, again->files()[0]->data(), 8);
  EXPECT_EQ(header % 8, 0u);
  for (const auto& e : again->entries()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(e.data) % static_cast<uintptr_t>(dtype_size(e.dtype)), 0u)
        << e.name;
  }
}

TEST(Safetensors, WriterOrdersByNameWithinADtype) {
  const TempFolder folder;
  float values[2] = {1, 2};
  write_safetensors(folder / "o.safetensors",
                    {{"b", Tensor(values + 1, DType::f32, {1})}, {"a", Tensor(values, DType::f32, {1})}});
  const auto bytes = read_bytes(folder / "o.safetensors");
  EXPECT_LT(bytes.find("\"a\""), bytes.find("\"b\""));
  EXPECT_EQ(std::memcmp(bytes.data() + bytes.size() - 8, values, 8), 0);
}

TEST(Safetensors, WriterRefusesAndLeavesNothing) {
  const TempFolder folder;
  float values[4] = {};
  const Tensor t(values, DType::f32, {2, 2});
  const auto path = folder / "o.safetensors";
  expect_error(ErrorCode::invalid_argument, "taken", [&] { write_safetensors(path, {{"a", t}, {"a", t}}); });
  expect_error(ErrorCode::invalid_argument, "taken", [&] { write_safetensors(path, {{"__metadata__", t}}); });
  expect_error(ErrorCode::invalid_argument, "contiguous", [&] {
    write_safetensors(path, {{"a", t.transpose(0, 1)}});
  });
  expect_error(ErrorCode::invalid_argument, "UTF-8", [&] { write_safetensors(path, {{"\xff", t}}); });
  expect_error(ErrorCode::io, "nowhere", [&] {
    write_safetensors(folder / "nowhere/o.safetensors", {{"a", t}});
  });
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Safetensors, WriterThatRunsOutOfSpaceKeepsTheOldFile) {
  const TempFolder folder;
  const auto path = write_bytes(folder / "o.safetensors", "old");
  std::vector<float> values(1 << 16);
  // A limit on file sizes replaces a full disk: write() fails midway.
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  expect_error(ErrorCode::io, "o.safetensors", [&] {
    write_safetensors(path,
                      {{"a", Tensor(values.data(), DType::f32, {static_cast<int64_t>(values.size())})}});
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(read_bytes(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(path.parent_path()), {}), 1) << "the old file alone";
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const TempFolder folder;
  const std::string good = read_bytes(golden("dtypes.safetensors"));
  for (size_t n = 0; n < good.size(); ++n) {
    ASSERT_FALSE(opens_or_refuses(folder / "cut.safetensors", good.substr(0, n))) << n << " bytes";
  }
  EXPECT_TRUE(opens_or_refuses(folder / "cut.safetensors", good));
}

TEST(Safetensors, EveryFlippedByteOpensOrIsRefused) {
  const TempFolder folder;
  const std::string good = read_bytes(golden("dtypes.safetensors"));
  for (size_t i = 0; i < good.size(); ++i) {
    for (const unsigned char mask : {0x01, 0x80, 0xff}) {
      std::string bad = good;
      bad[i] = static_cast<char>(static_cast<unsigned char>(bad[i]) ^ mask);
      opens_or_refuses(folder / "flip.safetensors", bad);
    }
  }
}

TEST(Safetensors, LyingHeaderLength) {
  const TempFolder folder;
  for (const uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string bytes = safetensors_bytes(kGood, std::string(8, 'x'));
    std::memcpy(bytes.data(), &length, 8);
    const auto path = write_bytes(folder / "bad.safetensors", bytes);
    expect_error(ErrorCode::corrupt, "limit", [&] { open_safetensors(path); });
  }
  std::string bytes = safetensors_bytes(kGood, "");
  bytes[0] = static_cast<char>(bytes[0] + 1);
  const auto path = write_bytes(folder / "bad.safetensors", bytes);
  expect_error(ErrorCode::corrupt, "but the file has", [&] { open_safetensors(path); });
}

TEST(Safetensors, LyingOffsetsAndShapes) {
  refuses_tensor("[2]", "[0,16]", "lie outside");
  refuses_tensor("[2]", "[8,0]", "lie outside");
  refuses_tensor("[2]", "[18446744073709551608,18446744073709551615]", "lie outside");
  refuses_tensor("[2]", "[0,4]", "does not take");
  refuses_tensor("[3]", "[0,8]", "does not take");
  refuses_tensor("[4294967296,4294967296,4294967296]", "[0,8]", "does not take");
  refuses_tensor("[9223372036854775807,2]", "[0,8]", "does not take");
  refuses_tensor("[0,4294967296,4294967296,4294967296]", "[0,0]", "does not take");
  refuses_tensor("[9223372036854775808]", "[0,8]", "too large");
  refuses_tensor("[18446744073709551616]", "[0,8]", "above 64 bits");
  refuses_tensor("[1,1,1,1,1,1,2]", "[0,8]", "at most 6");
  refuses_tensor("[-2]", "[0,8]", "negative");
  refuses_tensor("[2.0]", "[0,8]", "fraction");
  refuses_tensor("[true]", "[0,8]", "boolean");
  refuses_tensor("[null]", "[0,8]", "null");
  refuses_tensor("[[2]]", "[0,8]", "an array where");
  refuses_tensor("[\"2\"]", "[0,8]", "a string where");
  refuses_tensor("2", "[0,8]", "a number where");
  refuses_tensor("[2]", "[0]", "expected two");
  refuses_tensor("[2]", "[0,8,8]", "expected two");
  refuses_tensor("[2]", "{}", "an object where");
}

TEST(Safetensors, MalformedHeaders) {
  const std::string data(8, 'x');
  refuses("", data, "byte 8");
  refuses("[]", data, "expected an object");
  refuses("7", data, "expected an object");
  refuses("{", data, "byte");
  refuses(kGood + "x", data, "byte");
  refuses(R"({"a":1})", data, "a number where");
  refuses(R"({"a":{}})", data, "dtype is missing");
  refuses(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", data, "shape is missing");
  refuses(R"({"a":{"dtype":"F32","shape":[2]}})", data, "expected two data_offsets");
  refuses(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", data, "unknown dtype \"F33\"");
  refuses(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", data, "twice");
  refuses(R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", data, "twice");
  refuses(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"data_offsets":[0,8]}})", data, "twice");
  refuses(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1}})", data,
          "unknown key \"extra\"");
  refuses(R"({"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}})", data, "byte");
  refuses(R"({"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,8]}})", data, "byte");
  refuses("{\"\xff\":1}", data, "byte");
  refuses(R"({"__metadata__":{"x":{"y":"z"}}})", data, "an object where");
  refuses(R"({"__metadata__":{"x":1}})", data, "a number where");
  refuses(R"({"__metadata__":{"x":"1","x":"2"}})", data, "twice");
  refuses(std::string(2'000'000, '['), data, "expected an object");
  std::string deep;
  for (int i = 0; i < 200'000; ++i) deep += "{\"shape\":";
  refuses(deep, data, "an object where");
}

TEST(Safetensors, DuplicatesAndOverlapsAreRefused) {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  refuses("{" + a + "," + a + "}", std::string(8, 'x'), "overlap");
  refuses("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[7,11]}})", std::string(16, 'x'),
          "overlap");
  refuses(
      R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
      "", "twice");
}

TEST(Safetensors, HostileNamesDoNotReachTheTerminal) {
  const std::string header = R"({"a\u001b[2J":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})";
  refuses(header, std::string(8, 'x'), "a\\x1b[2J");
}

TEST(Safetensors, EmptyFilesFoldersAndPointers) {
  const TempFolder folder;
  expect_error(ErrorCode::corrupt, "empty", [&] { open_weights(write_bytes(folder / "e.safetensors", "")); });
  expect_error(ErrorCode::not_found, "none.safetensors", [&] { open_weights(folder / "none.safetensors"); });
  expect_error(ErrorCode::not_found, "none.safetensors",
               [&] { open_safetensors(folder / "none.safetensors"); });
  expect_error(ErrorCode::not_found, "diffusion_pytorch_model.safetensors",
               [&] { open_weights((fs::create_directory(folder / "empty"), folder / "empty")); });
  expect_error(ErrorCode::corrupt, "git lfs pull", [&] {
    open_weights(
        write_bytes(folder / "p.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0"));
  });
  expect_error(ErrorCode::io, "regular file", [&] { open_safetensors(folder.path()); });
  const auto fifo = folder / "pipe.safetensors";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_error(ErrorCode::io, "regular file", [&] { open_weights(fifo); });  // must not hang, either
}

TEST(Safetensors, FileWithNoTensorsOpens) {
  const TempFolder folder;
  EXPECT_TRUE(open_safetensors(write_bytes(folder / "none.safetensors", safetensors_bytes("{}", "")))
                  ->entries()
                  .empty());
}

TEST(Safetensors, OpensA28GigabyteFileOf1300TensorsInMilliseconds) {
  const TempFolder folder;
  std::string header = "{";
  uint64_t offset = 0;
  constexpr uint64_t kBytes = 4096ull * 2688 * 2;
  for (int i = 0; i < 1300; ++i) {
    header += (i ? ",\"" : "\"") + std::string("blocks.") + std::to_string(i) +
              ".attn1.to_q.weight\":" + R"({"dtype":"BF16","shape":[4096,2688],"data_offsets":[)" +
              std::to_string(offset) + "," + std::to_string(offset + kBytes) + "]}";
    offset += kBytes;
  }
  const auto path = write_bytes(folder / "large.safetensors", safetensors_bytes(header + "}", ""));
  fs::resize_file(path, fs::file_size(path) + offset);  // makes a sparse file
  const std::clock_t start = std::clock();              // processor time: the machine may be busy
  const auto source = open_weights(path);
  const double ms = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("open_ms", std::to_string(ms));
  EXPECT_EQ(source->entries().size(), 1300u);
  EXPECT_GT(source->mapped_bytes(), 28'000'000'000u);
  // This takes about 2 ms, or 660 under qemu-aarch64; reading the data would take many seconds.
  EXPECT_LT(ms, 2000);
}

TEST(Sharded, ReadsAndNamesWhatIsWrong) {
  const auto source = open_weights(golden("sharded"));
  ASSERT_EQ(source->entries().size(), 2u);
  const auto* b = source->find("b.weight");
  EXPECT_EQ(to_float(element<bf16_t>(*b, 3)), ramp(3));
  EXPECT_THAT(source->file_of(*b), testing::EndsWith("model-00002-of-00002.safetensors"));
  EXPECT_THAT(source->files_text(), testing::HasSubstr("1 more"));

  const TempFolder folder;
  for (const auto& item : fs::directory_iterator(golden("sharded"))) {
    fs::copy(item.path(), folder.path() / item.path().filename());
  }
  const auto index = folder / "model.safetensors.index.json";
  const auto refuse = [&](ErrorCode code, const std::string& json, const std::string& reason) {
    write_bytes(index, json);
    expect_error(code, reason, [&] { open_weights(folder.path()); });
  };
  for (const auto* name :
       {"../x.safetensors", "/etc/passwd", "a/b", "..", ".", "", "a\\\\b", "model.safetensors.index.json"})
    refuse(ErrorCode::corrupt, R"({"weight_map":{"a.weight":")" + std::string(name) + "\"}}",
           "plain file name");
  refuse(ErrorCode::corrupt, R"({"weight_map":{"a.weight":7}})", "expected a file name");
  refuse(ErrorCode::corrupt, R"({"weight_map":{}})", "empty");
  refuse(ErrorCode::corrupt, R"({"weight_map":[]})", "weight_map");
  refuse(ErrorCode::corrupt, "{}", "weight_map");
  refuse(ErrorCode::corrupt, "{\"weight_map\":", "byte");
  refuse(ErrorCode::corrupt, R"({"weight_map":{"c.weight":"model-00001-of-00002.safetensors"}})", "c.weight");
  refuse(ErrorCode::not_found, R"({"weight_map":{"a.weight":"gone.safetensors"}})", "gone.safetensors");
}

}  // namespace
}  // namespace tachy::test
