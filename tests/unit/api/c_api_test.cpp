// Tests the C interface: codes and texts of errors, a run, and cancelling it from a callback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "api/tachyscope_c.h"

namespace {

using testing::HasSubstr;

const std::string kModel = std::string(TACHY_SOURCE_DIR) + "/tests/golden/pipeline/model";

tachyscope_request request(const char* prompt) {
  return {.prompt = prompt, .guidance = -1, .shift = -1, .seed = 3};
}

struct Frames {
  std::vector<std::vector<uint8_t>> seen;
  int stop_at = -1, progress = 0;
};
int on_frame(void* user, const uint8_t* rgb, int32_t width, int32_t height, int64_t index) {
  auto& frames = *static_cast<Frames*>(user);
  frames.seen.emplace_back(rgb, rgb + width * height * 3);
  return index == frames.stop_at;
}
void on_progress(void* user, const char*, int64_t, int64_t, double) {
  ++static_cast<Frames*>(user)->progress;
}

TEST(CApi, LoadPlanGenerateCancel) {
  EXPECT_THAT(tachyscope_version(), HasSubstr("."));
  tachyscope_engine* engine = nullptr;
  ASSERT_EQ(tachyscope_load(kModel.c_str(), 2, &engine), 0) << tachyscope_last_error();
  tachyscope_request r = request("a red cat");
  tachyscope_plan_result plan{};
  EXPECT_EQ(tachyscope_plan(engine, &r, &plan), 0);
  EXPECT_GT(plan.peak_bytes, 0u);
  EXPECT_GT(plan.seconds, 0);

  Frames all;
  EXPECT_EQ(tachyscope_generate(engine, &r, on_frame, on_progress, &all), 0) << tachyscope_last_error();
  ASSERT_EQ(all.seen.size(), 5u);
  EXPECT_EQ(all.seen[0].size(), 32u * 16 * 3);
  EXPECT_GT(all.progress, 3);

  Frames stopped;
  stopped.stop_at = 0;
  EXPECT_EQ(tachyscope_generate(engine, &r, on_frame, nullptr, &stopped), 130);
  EXPECT_LT(stopped.seen.size(), 5u);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("cancelled"));

  Frames again;
  EXPECT_EQ(tachyscope_generate(engine, &r, on_frame, nullptr, &again), 0);
  EXPECT_EQ(again.seen, all.seen) << "a cancelled run leaves the engine as it was";
  tachyscope_free(engine);
}

// Each thread has its own run, and a frame's callback ends only this run; tachyscope_cancel ends all of them.
TEST(CApi, SeveralThreadsAtOnce) {
  tachyscope_engine* engine = nullptr;
  ASSERT_EQ(tachyscope_load(kModel.c_str(), 2, &engine), 0) << tachyscope_last_error();
  Frames alone;
  tachyscope_request r = request("a red cat");
  ASSERT_EQ(tachyscope_generate(engine, &r, on_frame, nullptr, &alone), 0);
  const auto run_all = [&](std::vector<Frames>& frames, tachyscope_progress_fn progress) {
    std::vector<int> codes(frames.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < frames.size(); ++i)
      threads.emplace_back(
          [&, i] { codes[i] = tachyscope_generate(engine, &r, on_frame, progress, &frames[i]); });
    for (std::thread& t : threads) t.join();
    return codes;
  };
  std::vector<Frames> some(3);
  some[1].stop_at = 1;
  EXPECT_EQ(run_all(some, nullptr), (std::vector{0, 130, 0}));
  EXPECT_EQ(some[0].seen, alone.seen);
  EXPECT_EQ(some[2].seen, alone.seen);

  static tachyscope_engine* cancelled = nullptr;
  cancelled = engine;
  std::vector<Frames> all(1);
  EXPECT_EQ(run_all(all, [](void*, const char*, int64_t, int64_t, double) { tachyscope_cancel(cancelled); }),
            (std::vector{130}));
  EXPECT_EQ(tachyscope_generate(engine, &r, nullptr, nullptr, nullptr), 0)
      << "it ends what runs, not what comes";
  tachyscope_free(engine);
}

TEST(CApi, GuidanceOfASecondExpertReachesTheRequest) {
  tachyscope_engine* engine = nullptr;
  ASSERT_EQ(tachyscope_load(kModel.c_str(), 1, &engine), 0) << tachyscope_last_error();
  tachyscope_plan_result plan{};
  tachyscope_request r = request("a red cat");
  EXPECT_EQ(r.guidance_2, 0) << "a caller that knows nothing of it leaves it out";
  EXPECT_EQ(tachyscope_plan(engine, &r, &plan), 0) << tachyscope_last_error();
  r.guidance_2 = -1;
  EXPECT_EQ(tachyscope_plan(engine, &r, &plan), 0) << tachyscope_last_error();
  r.guidance_2 = 3;
  EXPECT_EQ(tachyscope_plan(engine, &r, &plan), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("this model has only one transformer"));
  tachyscope_free(engine);
}

TEST(CApi, AdaptersReachTheRequest) {
  tachyscope_engine* engine = nullptr;
  ASSERT_EQ(tachyscope_load(kModel.c_str(), 2, &engine), 0) << tachyscope_last_error();
  tachyscope_request r = request("a red cat");
  tachyscope_plan_result plan{};
  const char* loras[] = {"/nowhere/a.safetensors:0.5", nullptr};
  r.loras = loras, r.lora_count = 1;
  EXPECT_EQ(tachyscope_plan(engine, &r, &plan), 3);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("/nowhere/a.safetensors: no such file"));
  r.lora_mode = "sideways";
  EXPECT_EQ(tachyscope_plan(engine, &r, &plan), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("merge or runtime"));
  r.lora_mode = nullptr, r.lora_count = 2;
  EXPECT_EQ(tachyscope_plan(engine, &r, &plan), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("lora 1 is null"));
  r.lora_count = 65;
  EXPECT_EQ(tachyscope_plan(engine, &r, &plan), 2);
  r.loras = nullptr, r.lora_count = 1;
  EXPECT_EQ(tachyscope_plan(engine, &r, &plan), 2);
  tachyscope_free(engine);
}

TEST(CApi, LoadOnNamesTheDevice) {
  tachyscope_engine* engine = nullptr;
  ASSERT_EQ(tachyscope_load_on(kModel.c_str(), "cpu", 0, 2, &engine), 0) << tachyscope_last_error();
  tachyscope_free(engine);
  engine = nullptr;
  EXPECT_EQ(tachyscope_load_on(kModel.c_str(), "tpu", 0, 2, &engine), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("tpu"));
  EXPECT_EQ(tachyscope_load_on(kModel.c_str(), "cpu", 1u << 30, 2, &engine), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("`max_vram`"));
  EXPECT_EQ(engine, nullptr);
}

TEST(CApi, LoadFilesNamesTheParts) {
  tachyscope_engine* engine = nullptr;
  const std::string vae = kModel + "/vae", text = kModel + "/text_encoder";
  tachyscope_model_files files = {.model = kModel.c_str(),
                                  .transformer_2 = nullptr,
                                  .text_encoder = text.c_str(),
                                  .vae = vae.c_str(),
                                  .tokenizer = nullptr};
  ASSERT_EQ(tachyscope_load_files(&files, "cpu", 0, 2, &engine), 0) << tachyscope_last_error();
  tachyscope_free(engine);
  engine = nullptr;
  files.vae = "gone.safetensors";
  EXPECT_EQ(tachyscope_load_files(&files, "cpu", 0, 2, &engine), 3);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("`vae`: gone.safetensors"));
  EXPECT_EQ(tachyscope_load_files(nullptr, "cpu", 0, 2, &engine), 2);
  EXPECT_EQ(engine, nullptr);
}

TEST(CApi, ErrorsHaveCodesAndTexts) {
  tachyscope_engine* engine = nullptr;
  EXPECT_EQ(tachyscope_load("no/such/model", 0, &engine), 3);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("no/such/model"));
  EXPECT_EQ(engine, nullptr);
  EXPECT_EQ(tachyscope_load(nullptr, 0, &engine), 2);
  EXPECT_EQ(tachyscope_load(kModel.c_str(), 0, nullptr), 2);
  EXPECT_EQ(tachyscope_load(kModel.c_str(), -7, &engine), 2);
  ASSERT_EQ(tachyscope_load(kModel.c_str(), 1, &engine), 0);
  tachyscope_request wrong = request("x");
  wrong.width = 100;
  tachyscope_plan_result plan{};
  EXPECT_EQ(tachyscope_plan(engine, &wrong, &plan), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("112"));
  tachyscope_request none = request(nullptr);
  EXPECT_EQ(tachyscope_generate(engine, &none, nullptr, nullptr, nullptr), 2);
  EXPECT_EQ(tachyscope_generate(engine, nullptr, nullptr, nullptr, nullptr), 2);
  EXPECT_EQ(tachyscope_generate(nullptr, &wrong, nullptr, nullptr, nullptr), 2);
  EXPECT_EQ(tachyscope_plan(nullptr, &wrong, &plan), 2);
  tachyscope_cancel(nullptr);
  tachyscope_free(nullptr);
  tachyscope_free(engine);
}

}  // namespace
