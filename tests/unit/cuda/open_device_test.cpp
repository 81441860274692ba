// Tests which device --device stands for, on made-up machines: one without a GPU, one with a GPU that cannot
// be used, and one with several.
#include "cuda/open_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "base/error.h"

namespace tachy::cuda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Returns the choice on a machine with these GPUs, each given by what try_gpu says about it: a name, or "!why
// not".
DeviceChoice on(std::vector<std::string> gpus, bool seen, const std::string& why = "no driver") {
  return search_device({.count =
                            [&](std::string* out) {
                              if (gpus.empty()) *out = why;
                              return static_cast<int>(gpus.size());
                            },
                        .try_gpu =
                            [&](int i) {
                              const std::string& gpu = gpus[static_cast<size_t>(i)];
                              if (gpu[0] == '!') fail(ErrorCode::out_of_memory, "{}", gpu.substr(1));
                              return gpu;
                            },
                        .seen = seen});
}

std::string refusal(const std::string& wish) {
  try {
    open_device(wish);
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

TEST(OpenDevice, AutoTakesTheFirstGpuThatCanBeUsedAndSaysSo) {
  EXPECT_EQ(on({"H200"}, true).device, "cuda:0");
  EXPECT_THAT(on({"H200"}, true).line, AllOf(HasSubstr("H200"), HasSubstr("`device` cpu")));
  const DeviceChoice second = on({"!A100 is full", "A40"}, true);
  EXPECT_EQ(second.device, "cuda:1");
  EXPECT_THAT(second.line, AllOf(HasSubstr("A40"), HasSubstr("cuda:1")));
}

TEST(OpenDevice, AutoSaysWhyAGpuIsNotUsed) {
  const DeviceChoice full = on({"!A100 is full", "!A40 is old"}, true);
  EXPECT_EQ(full.device, "cpu");
  EXPECT_THAT(full.line, AllOf(HasSubstr("CPU"), HasSubstr("A100 is full")));
  const DeviceChoice old = on({}, true, "the driver is for CUDA 11.4");
  EXPECT_EQ(old.device, "cpu");
  EXPECT_THAT(old.line, HasSubstr("CUDA 11.4"));
}

TEST(OpenDevice, AutoIsSilentWhereThereIsNoGpu) {
  EXPECT_EQ(on({}, false).device, "cpu");
  EXPECT_THAT(on({}, false).line, IsEmpty());
}

TEST(OpenDevice, AWrongVariableIsNoReasonToFallBack) {
  EXPECT_THROW(search_device({[](std::string*) { return 1; },
                              [](int) -> std::string {
                                fail(ErrorCode::invalid_argument, "TACHY_CUDA_CAPABILITY: expected …");
                              },
                              true}),
               Error);
}

TEST(OpenDevice, NamesAreChecked) {
  for (const char* wish : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1000", "CPU", "cpu:0", "cuda0"})
    EXPECT_THAT(refusal(wish), AllOf(HasSubstr("`device`"), HasSubstr(wish), HasSubstr("auto"))) << wish;
  EXPECT_EQ(choose_device("cpu"), "cpu");
  EXPECT_EQ(choose_device("cuda"), "cuda:0");
  EXPECT_EQ(choose_device("cuda:12"), "cuda:12");
  EXPECT_FALSE(is_automatic("cuda"));
  EXPECT_TRUE(is_automatic("auto"));
}

TEST(OpenDevice, TheVariableCountsWhereNothingWasAsked) {
  setenv("TACHY_DEVICE", "cpu", 1);
  EXPECT_EQ(choose_device(""), "cpu");
  EXPECT_FALSE(is_automatic(""));
  EXPECT_EQ(choose_device("cuda:3"), "cuda:3");
  setenv("TACHY_DEVICE", "gpu", 1);
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("TACHY_DEVICE"), HasSubstr("'gpu'")));
  unsetenv("TACHY_DEVICE");
  EXPECT_TRUE(is_automatic(""));
}

std::string refused_gpus(const std::string& wish, const std::string& device, int count, ErrorCode code) {
  try {
    gpus_of(wish, device, count, "there is no GPU");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << wish;
    return e.message();
  }
  return "no error";
}

TEST(Gpus, AreHowManyOrWhichOrAll) {
  const auto of = [](const char* wish, const char* device = "") { return gpus_of(wish, device, 4, ""); };
  EXPECT_THAT(of("1"), ElementsAre(0));
  EXPECT_THAT(of("3", "cuda"), ElementsAre(0, 1, 2));
  EXPECT_THAT(of("all", "auto"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(of("2,0", "cuda:2"), ElementsAre(2, 0));
}

TEST(Gpus, WhatIsWrongIsTold) {
  const auto wrong = [](const char* wish, const char* device = "") {
    return refused_gpus(wish, device, 4, ErrorCode::invalid_argument);
  };
  for (const char* wish : {"two", "-1", "1;2", ",", "1,", ",1", "1,,2", "1000", "2 ", "ALL"})
    EXPECT_THAT(wrong(wish), AllOf(HasSubstr("`gpus`"), HasSubstr(wish))) << wish;
  EXPECT_THAT(wrong("0"), HasSubstr("one GPU or more"));
  EXPECT_THAT(wrong("3,1,3"), HasSubstr("3 is there twice"));
  EXPECT_THAT(wrong("2", "cpu"), HasSubstr("not the CPU"));
  EXPECT_THAT(wrong("2", "cuda:1"), AllOf(HasSubstr("cuda:0"), HasSubstr("cuda:1")));
  EXPECT_THAT(refused_gpus("5", "", 4, ErrorCode::unsupported), HasSubstr("from 0 to 3, got 4"));
  EXPECT_THAT(refused_gpus("0,9", "", 4, ErrorCode::unsupported), HasSubstr("from 0 to 3, got 9"));
  EXPECT_THAT(refused_gpus("all", "", 17, ErrorCode::unsupported), HasSubstr("at most 16"));
  EXPECT_THAT(refused_gpus("2", "", 0, ErrorCode::unsupported), HasSubstr("there is no GPU"));
}

TEST(OpenDevice, EachProcessOfAHostTakesItsOwn) {
  const auto of = [](const char* wish, int place, int count) {
    return device_of_process(wish, place, count, "no driver");
  };
  EXPECT_EQ(of("auto", 0, 4), "cuda:0");
  EXPECT_EQ(of("auto", 3, 4), "cuda:3");
  EXPECT_EQ(of("cuda", 2, 4), "cuda:2");
  EXPECT_EQ(of("cuda:1", 2, 4), "cuda:1");
  EXPECT_EQ(of("cuda", 5, 1), "cuda:0");  // the launcher lets it see one
  EXPECT_EQ(of("cpu", 2, 4), "cpu");
  EXPECT_EQ(of("auto", 2, 0), "cpu");
  const auto refused = [&](const char* wish, int place, int count) -> std::string {
    try {
      return of(wish, place, count);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unsupported);
      return e.message();
    }
  };
  EXPECT_THAT(refused("auto", 4, 4), AllOf(HasSubstr("number 4 on its host"), HasSubstr("4 GPUs")));
  EXPECT_THAT(refused("cuda", 0, 0), AllOf(HasSubstr("no driver"), HasSubstr("`device` cpu")));
}

// The machine has fewer GPUs, or the build has no kernels.
TEST(OpenDevice, AGpuAskedForMustBeThere) {
  EXPECT_THAT(refusal("cuda:99"), AllOf(HasSubstr("`device`: "), HasSubstr("`device` cpu")));
}

}  // namespace
}  // namespace tachy::cuda
