// Tests the C++ facade: planning and generating with the tiny model, latent files, the models that ship, exit
// codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "api/exit_code.h"
#include "api/tachyscope.h"

namespace tachy {
namespace {

using testing::HasSubstr;

const std::string kModel = std::string(TACHY_SOURCE_DIR) + "/tests/golden/pipeline/model";

TEST(Engine, PlansAndGenerates) {
  Engine engine(kModel, {.threads = 2, .keep_loaded = true});
  EXPECT_EQ(engine.threads(), 2);
  EXPECT_EQ(*engine.defaults().width, 32);
  EXPECT_GT(engine.plan({.prompt = "a cat"}).peak_bytes, 0u);
  int frames = 0;
  const auto count = [&](const RgbImage& image, int64_t index) {
    EXPECT_EQ(index, frames++ % 5);
    EXPECT_EQ(image.rgb.size(), 32u * 16 * 3);
  };
  const ResolvedRequest r = engine.generate({.prompt = "a cat"}, {.frame = count});
  EXPECT_EQ(frames, 5);
  EXPECT_EQ(*r.request.steps, 2);
  Engine moved = std::move(engine);
  moved.generate({.prompt = "a cat"}, {.frame = count});
  EXPECT_EQ(frames, 10);
}

TEST(Engine, SeveralThreadsAtOnce) {
  Engine engine(kModel, {.threads = 2, .keep_loaded = true});
  const auto frames_of = [&](uint64_t seed) {
    std::vector<uint8_t> rgb;
    const PreparedRequest prepared = engine.prepare({.prompt = "a cat", .seed = seed});
    engine.check_memory(prepared.plan());
    engine.generate(prepared, {.frame = [&](const RgbImage& image, int64_t) {
                      rgb.insert(rgb.end(), image.rgb.begin(), image.rgb.end());
                    }});
    return rgb;
  };
  std::vector<std::vector<uint8_t>> alone, together(4);
  for (uint64_t seed = 0; seed < 4; ++seed) alone.push_back(frames_of(seed));
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] { together[seed] = frames_of(seed); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(together, alone);
  EXPECT_NE(alone[0], alone[1]);
}

TEST(Engine, WrongOptionsAreNamed) {
  const auto message = [](const EngineOptions& options) {
    try {
      Engine engine(kModel, options);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message({.threads = -1}), HasSubstr("`threads`"));
  EXPECT_THAT(message({.idle_seconds = -2}), HasSubstr("`idle_seconds`"));
  EXPECT_THAT(message({.threads = 5000}), HasSubstr("5000"));
  EXPECT_THAT(message({.weights = "folded"}), HasSubstr("folded"));
  EXPECT_THROW(Engine("no/such/folder"), Error);
}

TEST(Latents, FilesRoundTripAndAreChecked) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("tachyscope-latents-" + std::to_string(getpid()) + ".safetensors");
  const std::vector<float> values{1, -2, 3.5f, 0, 5, 6, 7, 8};
  write_latents(file, values, std::vector<int64_t>{2, 1, 2, 2});
  const LatentFile back = read_latents(file);
  EXPECT_EQ(back.values, values);
  EXPECT_THAT(back.shape, testing::ElementsAre(2, 1, 2, 2));
  write_latents(file, values, std::vector<int64_t>{1, 2, 1, 2, 2});
  EXPECT_THAT(read_latents(file).shape, testing::ElementsAre(2, 1, 2, 2)) << "a batch of one";
  write_latents(file, values, std::vector<int64_t>{8});
  EXPECT_THROW(read_latents(file), Error);
  std::filesystem::remove(file);
  EXPECT_THROW(read_latents(file), Error);
}

TEST(ShippedModel, NamesThePlacesLookedAt) {
  const std::string old = std::getenv("TACHY_MODEL_DIR") ? std::getenv("TACHY_MODEL_DIR") : "";
  const auto folder =
      std::filesystem::temp_directory_path() / ("tachyscope-models-" + std::to_string(getpid()));
  setenv("TACHY_MODEL_DIR", folder.c_str(), 1);
  try {
    EXPECT_TRUE(std::filesystem::exists(shipped_model() / "model_index.json"));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::not_found);
    EXPECT_THAT(e.message(), HasSubstr(folder.string()));
    EXPECT_THAT(e.message(), HasSubstr("`model`"));
  }
  std::filesystem::create_directories(folder / "sprites");
  std::ofstream(folder / "sprites" / "model_index.json") << "{}";
  EXPECT_EQ(shipped_model(), std::filesystem::canonical(folder / "sprites"));
  std::filesystem::create_directories(folder / "talker");
  std::ofstream(folder / "talker" / "config.json") << "{}";
  EXPECT_EQ(shipped_model("talker"), std::filesystem::canonical(folder / "talker"));
  std::filesystem::remove_all(folder);
  old.empty() ? unsetenv("TACHY_MODEL_DIR") : setenv("TACHY_MODEL_DIR", old.c_str(), 1);
}

TEST(ExitCodes, AreTheDocumentedOnes) {
  const std::pair<ErrorCode, int> codes[] = {{ErrorCode::internal, 1},      {ErrorCode::invalid_argument, 2},
                                             {ErrorCode::not_found, 3},     {ErrorCode::corrupt, 4},
                                             {ErrorCode::unsupported, 5},   {ErrorCode::io, 6},
                                             {ErrorCode::out_of_memory, 7}, {ErrorCode::numerical, 8},
                                             {ErrorCode::device, 9},        {ErrorCode::cancelled, 130}};
  for (const auto& [code, number] : codes) EXPECT_EQ(exit_code(code), number);
}

}  // namespace
}  // namespace tachy
