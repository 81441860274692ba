// Tests files that downloads leave under the name of weights: pages, pointers, archives, parts, links to
// nothing, caches. Each error says what the file is and what to do.
#include "base/foreign_file.h"
#include "support.h"
#include "weights/hub_cache.h"
#include "weights/json_file.h"
#include "weights/model_layout.h"
#include "weights/open_file.h"
#include "weights/safetensors.h"

namespace tachy::test {
namespace {

std::string one_tensor() { return safetensors_bytes({{"a", "F32", "[1]", std::string(4, '\0')}}); }

TEST(Downloads, AreToldWhatTheyAre) {
  const TempFolder folder;
  std::string tar(600, 'x');
  tar.replace(257, 5, "ustar");
  const std::pair<std::string, const char*> cases[] = {
      {"<!DOCTYPE html>\n<html class=\"\">", "HTML page"},
      {"\xef\xbb\xbf\n <HTML lang=en><head>", "/resolve/"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
      {"# xet version 0\nfilesize = 123\nhash = 'ab'\n", "git-xet pointer"},
      {"{\"error\":\"Repository not found\"}",
       "a server's error message, '{\"error\":\"Repository not found\"}'"},
      {"Access to model x is restricted. You must be authenticated", "with a login"},
      {"Entry not found", "a server's error message"},
      {"\x1f\x8b\x08" + std::string(40, '\1'), "gzip archive: unpack it"},
      {"7z\xbc\xaf\x27\x1c" + std::string(40, '\1'), "7z archive"},
      {"Rar!\x1a\x07" + std::string(40, '\1'), "RAR archive"},
      {std::string("\xfd"
                   "7zXZ\0",
                   6) +
           std::string(40, '\1'),
       "xz archive"},
      {"BZh9" + std::string(40, '\1'), "bzip2 archive"},
      {"\x28\xb5\x2f\xfd" + std::string(40, '\1'), "zstd archive"},
      {tar, "tar archive"},
      {"\x89PNG\r\n\x1a\n" + std::string(40, '\1'), "PNG picture"},
      {std::string(4096, '\0'), "begins with zeros"},
      {"", "the file is empty"}};
  for (const char* name : {"m.safetensors", "m.pth", "m.gguf", "m.bin"})
    for (const auto& [bytes, says] : cases) {
      const auto path = write_bytes(folder / name, bytes);
      expect_error(ErrorCode::corrupt, says, [&] { open_weights(path); });
      expect_error(ErrorCode::corrupt, name, [&] { open_weights(path); });
    }
  expect_error(ErrorCode::corrupt, "config.json: it is an HTML page",
               [&] { read_json(write_bytes(folder / "config.json", "<!doctype html>")); });
  expect_error(ErrorCode::corrupt, "config.json: this is a git-lfs pointer", [&] {
    read_json(write_bytes(folder / "config.json", "version https://git-lfs.github.com/spec/v1\n"));
  });
}

// The length of a safetensors header may look like the beginning of an archive.
TEST(Downloads, WeightsAreNotTakenForArchives) {
  const TempFolder folder;
  std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize(0x8b1f, ' ');
  const std::string bytes = safetensors_bytes(header, std::string(4, '\0'));
  ASSERT_TRUE(bytes.starts_with("\x1f\x8b"));
  EXPECT_EQ(open_weights(write_bytes(folder / "m.safetensors", bytes))->entries().size(), 1u);
}

TEST(Downloads, NamesOfUnfinishedOnes) {
  const TempFolder folder;
  for (const char* name :
       {"m.safetensors.part", "m.safetensors.crdownload", "abc.incomplete", "m.gguf.aria2"})
    expect_error(ErrorCode::corrupt, "unfinished download",
                 [&] { open_weights(write_bytes(folder / name, one_tensor().substr(0, 60))); });
  EXPECT_NO_THROW(open_weights(write_bytes(folder / "whole.safetensors.part", one_tensor())));
  const auto path = write_bytes(folder / "n.safetensors", one_tensor());
  EXPECT_NO_THROW(open_weights(path));
  write_bytes(folder / "n.safetensors.aria2", "x");
  expect_error(ErrorCode::corrupt, "n.safetensors.aria2 beside it", [&] { open_weights(path); });
}

TEST(Downloads, LinksToNothing) {
  const TempFolder folder;
  fs::create_symlink("../../blobs/0a1b", folder / "model.safetensors");
  for (const fs::path& path : {folder / "model.safetensors", folder.path()}) {
    expect_error(ErrorCode::not_found,
                 "model.safetensors: it is a link to ../../blobs/0a1b, which is missing",
                 [&] { open_weights(path); });
  }
  fs::create_symlink("gone", folder / "config.json");
  expect_error(ErrorCode::not_found, "config.json: cannot open: it is a link to gone",
               [&] { read_json(folder / "config.json"); });
  fs::remove(folder / "model.safetensors");
  expect_error(ErrorCode::not_found, "config.json: it is a link to gone", [&] { open_model(folder.path()); });
  // A file of another precision does not replace the missing one.
  write_bytes(folder / "m/model.fp16.safetensors", one_tensor());
  fs::create_symlink("gone", folder / "m/model.safetensors");
  expect_error(ErrorCode::not_found, "model.safetensors: it is a link to gone",
               [&] { open_weights(folder / "m"); });
  // A file that nothing looks for causes no error.
  write_bytes(folder / "model.safetensors", one_tensor());
  EXPECT_NO_THROW(open_weights(folder.path()));
}

TEST(Downloads, OneShardOfSeveral) {
  const TempFolder folder;
  for (const auto& item : fs::directory_iterator(golden("sharded")))
    fs::copy(item.path(), folder.path() / item.path().filename());
  const auto shard = folder / "model-00001-of-00002.safetensors";
  const auto index = folder / "model.safetensors.index.json";
  expect_error(ErrorCode::invalid_argument,
               "shard 1 of 2, a part of the tensors alone: name its index, " + index.string(),
               [&] { refuse_lone_shard(shard); });
  EXPECT_EQ(open_weights(index)->entries().size(), 2u);
  fs::remove(index);
  const std::string gone = "model.safetensors.index.json, which is not beside it";
  expect_error(ErrorCode::invalid_argument, gone, [&] { refuse_lone_shard(shard); });
  expect_error(ErrorCode::invalid_argument, gone, [&] { open_weights(folder.path()); });
  const auto only = folder / "x-00001-of-00001.safetensors";
  EXPECT_NO_THROW(refuse_lone_shard(only));
}

TEST(Downloads, ArchivesOfWeights) {
  const TempFolder folder;
  std::string zip = read_bytes(golden("plain_zip.pth"));
  for (size_t at; (at = zip.find("data.pkl")) != zip.npos;) zip.replace(at, 8, "lora.bin");
  expect_error(ErrorCode::corrupt, "unpack it and name the weights in it",
               [&] { open_weights(write_bytes(folder / "m.safetensors", zip)); });
}

TEST(HubCache, TheSnapshotOfMainIsUsed) {
  const TempFolder folder;
  const fs::path root = folder / "models--Wan-AI--Wan2.1-T2V-1.3B";
  fs::create_directories(root / "blobs");
  expect_error(ErrorCode::not_found, "without a snapshot", [&] {
    fs::create_directories(root / "snapshots");
    snapshot_of(root);
  });
  write_bytes(root / "snapshots/aaa111/model.safetensors", one_tensor());
  EXPECT_EQ(snapshot_of(root), root / "snapshots/aaa111");
  EXPECT_EQ(open_weights(root)->entries().size(), 1u);
  write_bytes(root / "snapshots/bbb222/other.txt", "");
  expect_error(ErrorCode::invalid_argument, "aaa111, bbb222", [&] { snapshot_of(root); });
  write_bytes(root / "refs/main", "aaa111\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(snapshot_of(root / "snapshots"), root / "snapshots/aaa111");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("snapshots/aaa111 is used"));
  write_bytes(root / "refs/main", "../../../etc");
  expect_error(ErrorCode::invalid_argument, "none of which is refs/main", [&] { snapshot_of(root); });
  expect_error(ErrorCode::invalid_argument, "models--Wan-AI--Wan2.1-T2V-1.3B: name one",
               [&] { open_weights(folder.path()); });
  EXPECT_EQ(snapshot_of(root / "snapshots/aaa111"), root / "snapshots/aaa111");
  EXPECT_EQ(snapshot_of(folder / "nothing"), folder / "nothing");
}

}  // namespace
}  // namespace tachy::test
