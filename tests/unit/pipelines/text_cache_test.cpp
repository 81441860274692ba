// Tests prompt embeddings on disk: a hit gives the bits of a miss without the encoder, whatever is in the
// folder and whoever else writes to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "base/log.h"
#include "host_device.h"
#include "tiny_model.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using test::short_request;

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TextToVideo pipeline_with(const fs::path& cache, const std::string& model = test::model_path()) {
  return TextToVideo(ModelBundle::open(model), {.threads = 2, .text_cache = cache.string()});
}

class TextCacheTest : public testing::Test {
 protected:
  fs::path cache() const { return scratch_.path / "cache"; }
  test::Result run(const VideoRequest& request = short_request()) {
    TextToVideo pipeline = pipeline_with(cache());
    return test::run(pipeline, request);
  }
  bool hits(const VideoRequest& request = short_request(), const std::string& model = test::model_path()) {
    return pipeline_with(cache(), model).plan(request).stages[0].flops == 0;
  }
  test::ScratchFolder scratch_;
};

TEST_F(TextCacheTest, AHitGivesTheBitsOfAMiss) {
  const test::Result plain = test::run(test::model_path(), short_request());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(hits(), i == 1);
    const test::Result r = run();
    EXPECT_EQ(r.latents, plain.latents) << i;
    EXPECT_EQ(r.rgb, plain.rgb) << i;
    EXPECT_EQ(files_of(cache()).size(), 2u) << "the prompt and what it should not show";
  }
}

TEST_F(TextCacheTest, AHitPlansAndTakesNoEncoder) {
  run();
  TextToVideo pipeline = pipeline_with(cache());
  const VideoPlan plan = pipeline.plan(short_request());
  EXPECT_EQ(plan.stages[0].name, "text");
  EXPECT_EQ(plan.stages[0].weight_bytes, 0u);
  EXPECT_EQ(plan.stages[0].mapped_bytes, 0u);
  EXPECT_GT(test::run(pipeline, short_request()).frames, 0);  // makes the data that the pipeline keeps
                                                              // between runs
  const size_t before = Buffer::live_bytes();
  size_t text = 0;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    if (p.stage == "text") text = Buffer::peak_bytes() - before;
  };
  Buffer::reset_peak();
  test::run(pipeline, short_request(), callbacks);
  EXPECT_EQ(text, plan.shared_bytes + plan.stages[0].arena_bytes);
  EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes);
}

// One of two prompts is cached: the encoder is planned and runs only for the other.
TEST_F(TextCacheTest, HalfAHit) {
  run();
  VideoRequest other = short_request();
  other.prompt = "a blue dog moves to the left over the hills";
  TextToVideo pipeline = pipeline_with(cache());
  const VideoPlan plan = pipeline.plan(other);
  EXPECT_GT(plan.stages[0].flops, 0);
  const size_t before = Buffer::live_bytes();
  Buffer::reset_peak();
  const test::Result r = test::run(pipeline, other);
  EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes);
  EXPECT_EQ(r.latents, test::run(test::model_path(), other).latents);
  EXPECT_EQ(files_of(cache()).size(), 3u);
  EXPECT_TRUE(hits(other));
}

TEST_F(TextCacheTest, AKeptModelOfAnEarlierRequestIsNotCountedTwice) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = 2, .keep_loaded = true, .text_cache = cache().string()});
  const size_t before = Buffer::live_bytes();
  for (int i = 0; i < 3; ++i) {
    const VideoPlan plan = pipeline.plan(short_request());
    Buffer::reset_peak();
    test::run(pipeline, short_request());
    EXPECT_LE(Buffer::peak_bytes() - before, plan.peak_bytes) << i;
  }
}

TEST_F(TextCacheTest, WhatDecidesTheBitsIsInTheKey) {
  run();
  EXPECT_TRUE(hits());
  VideoRequest request = short_request();
  request.prompt = "a red cats";
  EXPECT_FALSE(hits(request));
  request = short_request(), request.level = "none";
  EXPECT_FALSE(hits(request));
  request = short_request(), request.seed = 9, request.steps = 3, request.frames = 9;
  EXPECT_TRUE(hits(request)) << "nothing that the encoder sees";

  const test::ScratchFolder copies;
  const auto folder = test::model_copy(copies);
  const auto weights = find_weights(folder / "text_encoder");
  const auto time = fs::last_write_time(find_weights(fs::path(test::model_path()) / "text_encoder"));
  fs::last_write_time(weights, time);
  EXPECT_TRUE(hits(short_request(), folder)) << "the same files elsewhere";
  test::edit_weights(folder, "text_encoder", [](const std::string& name, Tensor t) {
    if (name == "encoder.final_layer_norm.weight") static_cast<uint8_t*>(t.data)[0] ^= 1;
    return true;
  });
  fs::last_write_time(weights, time);
  EXPECT_FALSE(hits(short_request(), folder)) << "one bit of a weight, the file's time restored";
  fs::copy_file(find_weights(fs::path(test::model_path()) / "text_encoder"), weights,
                fs::copy_options::overwrite_existing);
  fs::last_write_time(weights, time + std::chrono::seconds(1));
  EXPECT_FALSE(hits(short_request(), folder)) << "a file written since";
}

// If a file is truncated at any length, or any byte of the header or some of the values are changed, the file
// is ignored or gives the right values, but never others.
TEST_F(TextCacheTest, DamagedFilesArePassedOver) {
  set_quiet(true);
  fs::create_directory(cache());
  const TextCache store(cache());
  const TextCache::Key key{.encoder = "e", .how = "h", .ids = {5, 7, 1}, .width = 4};
  std::vector<float> text(12);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<float>(i) - 3.5f;
  store.keep(key, text);
  ASSERT_EQ(store.find(key), text);
  const fs::path path = store.file_of(key);
  const std::string good = read_text(path);
  const auto write = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  };
  for (size_t length = 0; length < good.size(); ++length) {
    write(good.substr(0, length));
    EXPECT_FALSE(store.find(key)) << length;
  }
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= 0x20;
    write(bad);
    if (const auto found = store.find(key)) {
      EXPECT_EQ(*found, text) << at;
    }
  }
  std::string bad = good;
  bad[bad.size() - 1] ^= 1;  // a byte of a value: only the hash detects it
  write(bad);
  EXPECT_FALSE(store.find(key));
  write(good + std::string(1 << 20, 'x'));
  EXPECT_FALSE(store.find(key)) << "larger than it can be";
  TextCache::Key other = key;
  other.ids = {5, 7, 2};
  fs::rename(path, store.file_of(other));
  EXPECT_FALSE(store.find(other)) << "another prompt's under this name";
  std::vector<float> nan = text;
  nan[3] = std::numeric_limits<float>::quiet_NaN();
  store.keep(key, nan);
  EXPECT_FALSE(store.find(key)) << "no encoder gives this";
  set_quiet(false);
}

TEST_F(TextCacheTest, ARunReplacesWhatItCannotUse) {
  const test::Result plain = run();
  set_quiet(true);
  for (const fs::path& file : files_of(cache())) fs::resize_file(file, 100);
  EXPECT_FALSE(hits());
  EXPECT_EQ(run().latents, plain.latents);
  EXPECT_TRUE(hits());
  for (const fs::path& file : files_of(cache())) {  // none of these could be a file of ours
    fs::remove(file);
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  }
  EXPECT_EQ(run().latents, plain.latents) << "a pipe must not hang";
  EXPECT_TRUE(hits());
  for (const fs::path& file : files_of(cache())) {
    fs::remove(file);
    fs::create_directories(file / "inside");
  }
  EXPECT_EQ(run().latents, plain.latents);
  EXPECT_FALSE(hits()) << "a folder under that name stays";
  EXPECT_EQ(files_of(cache()).size(), 2u) << "and nothing is left beside it";
  set_quiet(false);
}

TEST_F(TextCacheTest, AFolderThatVanishesCostsOnlyTheCache) {
  TextToVideo pipeline = pipeline_with(cache());
  fs::remove(cache());
  set_quiet(true);
  EXPECT_EQ(test::run(pipeline, short_request()).latents,
            test::run(test::model_path(), short_request()).latents);
  set_quiet(false);
  EXPECT_FALSE(fs::exists(cache()));
}

TEST_F(TextCacheTest, FoldersThatCannotBe) {
  std::ofstream(scratch_.path / "file") << "x";
  for (const fs::path& folder :
       {scratch_.path / "file", scratch_.path / "no" / "folder", fs::path("/proc/x")})
    try {
      pipeline_with(folder);
      ADD_FAILURE() << folder;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::io) << e.message();
      EXPECT_THAT(e.message(), testing::HasSubstr("`text_cache`"));
      EXPECT_THAT(e.message(), testing::HasSubstr(folder.string()));
    }
}

// Writers and readers use one key at the same time: a reader sees nothing or the whole file.
TEST_F(TextCacheTest, ManyAtOnce) {
  fs::create_directory(cache());
  const TextCache::Key key{.encoder = "e", .how = "h", .ids = {1, 2}, .width = 2048};
  const std::vector<float> text(4096, 0.25f);
  std::atomic<int> found{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const TextCache store(cache());
      for (int i = 0; i < 25; ++i) {
        if (t % 2 == 0) store.keep(key, text);
        const auto got = store.find(key);
        found += got.has_value(), wrong += got && *got != text;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_GE(found, 50) << "whoever has written finds it";
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files_of(cache()), std::vector{TextCache(cache()).file_of(key)});
}

// On a device the encoder's blocks are neither loaded nor streamed after a hit.
TEST_F(TextCacheTest, OnADevice) {
  const auto memory = std::make_shared<test::HostDevice>(size_t{1} << 30);
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = 2, .text_cache = cache().string(), .memory = memory});
  const test::Result miss = test::run(pipeline, short_request());
  const VideoPlan plan = pipeline.plan(short_request());
  EXPECT_EQ(plan.stages[0].weight_bytes, 0u);
  memory->reset_peak();
  EXPECT_EQ(test::run(pipeline, short_request()).latents, miss.latents);
  EXPECT_EQ(memory->peak_bytes(), plan.peak_bytes);
}

}  // namespace
}  // namespace tachy
