// Opening a library of kernels: that both sides call each other, and what a user is told who lacks something. Libraries stand in for the
// kernels and for the driver.
#include "cuda/apart/kernel_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/notice.h"
#include "base/os/process.h"
#include "standin_calls.h"

namespace tachy::cuda {

extern "C" {
extern const Seam test_seam;
extern const char test_seam_stamp[];
[[noreturn]] void test_seam_empty() { fail(ErrorCode::internal, "the slot is empty"); }
}

namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class KernelLoader : public testing::Test {
 protected:
  KernelLoader() {
    fs::create_directories(folder_);
    gpus("90");
    driver("13000");
  }
  // Files stay until the end: the system takes one that has the number of a removed one for the library that is still open.
  static void TearDownTestSuite() { fs::remove_all(all()); }
  static fs::path all() {
    return fs::temp_directory_path() / ("kernel_loader_" + std::to_string(os::process_id()));
  }

  void put(const std::string& architecture, const fs::path& library = STANDIN_KERNELS) {
    fs::copy_file(library, folder_ / ("libtachyscope_cuda13_sm" + architecture + ".so"));
  }
  static void gpus(const char* list) { ::setenv("STANDIN_GPUS", list, 1); }
  static void driver(const char* version) { ::setenv("STANDIN_DRIVER_VERSION", version, 1); }
  OpenedKernels open(const std::string& driver = STANDIN_DRIVER, bool seen = true) {
    why_.clear();
    return open_kernels({.folders = {folder_},
                         .driver = driver,
                         .stamp = test_seam_stamp,
                         .seam = &test_seam,
                         .gpu_seen = seen},
                        why_);
  }

  const fs::path folder_ = all() / testing::UnitTest::GetInstance()->current_test_info()->name();
  std::string why_;
};

// The first test, since a library stays open.
TEST_F(KernelLoader, AnEmptySlotThrowsAndAFilledOneCalls) {
  EXPECT_THROW(standin::call_twice(3), Error);
  EXPECT_THROW(standin::call_by_table(3), Error);
  put("90a");
  const OpenedKernels opened = open();
  ASSERT_TRUE(opened.library) << why_;
  EXPECT_EQ(opened.file.capability, 90);
  EXPECT_STREQ(opened.library->cuda, "13.0");
  EXPECT_EQ(opened.library->gpu_count(nullptr), 2);
  EXPECT_EQ(standin::call_twice(21), 42);
  EXPECT_EQ(standin::call_by_table(-4), -8);
}

TEST_F(KernelLoader, BothSidesShareSettingsLinesErrorsAndObjects) {
  put("90a");
  ASSERT_TRUE(open().library) << why_;
  ::setenv("TACHY_STANDIN", "seen", 1);
  EXPECT_EQ(standin::call_value_of("TACHY_STANDIN"), "seen");
  ::unsetenv("TACHY_STANDIN");
  EXPECT_EQ(standin::call_value_of("TACHY_STANDIN"), "none");
  std::string told;
  {
    const LineScope scope([&](std::string_view text) { told = text; });
    standin::call_warn_of("from the library");
  }
  EXPECT_EQ(told, "warning: from the library");  // the program's scope took it
  try {
    standin::call_throw("across");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_EQ(e.message(), "across");
  }
  const std::unique_ptr<standin::Counter> counter(standin::call_make_counter());
  EXPECT_EQ(counter->next(), 1);
  EXPECT_EQ(counter->next(), 2);
}

// As the operations and the engine do in one process of Python.
TEST_F(KernelLoader, ASecondProgramOfTheSameBuildSharesTheLibrary) {
  put("90a");
  const OpenedKernels first = open();
  ASSERT_TRUE(first.library) << why_;
  void* const before = first.library->seam->needed[0];
  // It offers nothing, so a second joining would fail.
  const Seam poor = {0, nullptr, nullptr, test_seam.needed_count, test_seam.needed_names, test_seam.needed};
  const OpenedKernels second = open_kernels({.folders = {folder_},
                                             .driver = STANDIN_DRIVER,
                                             .stamp = test_seam_stamp,
                                             .seam = &poor,
                                             .gpu_seen = true},
                                            why_);
  EXPECT_EQ(second.library, first.library) << why_;
  EXPECT_EQ(first.library->seam->needed[0], before);
  EXPECT_EQ(standin::call_twice(5), 10);
}

TEST_F(KernelLoader, AMachineWithoutADriverIsTold) {
  put("90a");
  EXPECT_FALSE(open(STANDIN_DRIVER, false).library);
  EXPECT_EQ(why_, "no NVIDIA driver is loaded");
  EXPECT_FALSE(open("no_such_driver.so").library);
  EXPECT_EQ(why_, "no NVIDIA driver is loaded");
}

TEST_F(KernelLoader, AMissingPackageIsNamed) {
  EXPECT_FALSE(open().library);
  EXPECT_THAT(why_, AllOf(HasSubstr("pip install tachyscope-cuda13"), HasSubstr("TACHY_CUDA_KERNELS")));
}

TEST_F(KernelLoader, AnOldDriverIsNamed) {
  put("90a");
  driver("12080");
  EXPECT_FALSE(open().library);
  EXPECT_THAT(why_, AllOf(HasSubstr("is for CUDA 12.8"), HasSubstr("need 13.0"), HasSubstr("580 or newer")));
}

TEST_F(KernelLoader, ADriverWithoutAGpuOrBrokenIsQuoted) {
  put("90a");
  gpus("");
  EXPECT_FALSE(open().library);
  EXPECT_THAT(why_, HasSubstr("CUDA_VISIBLE_DEVICES"));
  gpus("broken");
  EXPECT_FALSE(open().library);
  EXPECT_EQ(why_, "no usable GPU: the stand-in is broken");
}

TEST_F(KernelLoader, AnotherArchitectureIsNamed) {
  put("90a");
  gpus("70");
  EXPECT_FALSE(open().library);
  EXPECT_THAT(why_, AllOf(HasSubstr("compute capability 7.0"), HasSubstr("for 90a only")));
}

TEST_F(KernelLoader, ASecondGpuOfAnotherKindIsRefusedByName) {
  put("90a");
  gpus("90,80");
  const OpenedKernels opened = open();
  ASSERT_TRUE(opened.library) << why_;
  EXPECT_EQ(why_not_gpu(opened, 0), "");
  EXPECT_THAT(why_not_gpu(opened, 1),
              AllOf(HasSubstr("GPU 1 has compute capability 8.0"), HasSubstr("CUDA_VISIBLE_DEVICES=1")));
  EXPECT_EQ(why_not_gpu(opened, 7), "");
}

TEST_F(KernelLoader, ALibraryOfAnotherBuildIsRefused) {
  put("90a", STANDIN_OF_ANOTHER_BUILD);
  EXPECT_FALSE(open().library);
  EXPECT_THAT(why_, AllOf(HasSubstr("belongs to another build"), HasSubstr(test_seam_stamp)));
}

TEST_F(KernelLoader, AFileThatIsNoLibraryIsRefused) {
  put("90a", __FILE__);
  EXPECT_FALSE(open().library);
  EXPECT_THAT(why_, HasSubstr("could not open the kernels"));
}

TEST_F(KernelLoader, AnotherLibraryIsRefused) {
  put("90a", STANDIN_DRIVER);
  EXPECT_FALSE(open().library);
  EXPECT_THAT(why_, HasSubstr("is no library of kernels"));
}

TEST_F(KernelLoader, AFunctionThatNobodyOffersIsNamed) {
  const char* const needed[] = {"a", "b", "c"};
  const char* const offered[] = {"a", "c", "d"};
  int x = 0;
  void* const functions[] = {&x, nullptr, &x};
  void* slots[] = {nullptr, nullptr, nullptr};
  const Seam needs = {0, nullptr, nullptr, 3, needed, slots};
  const Seam offers = {3, offered, functions, 0, nullptr, nullptr};
  EXPECT_THAT(fill_slots(needs, offers), testing::ElementsAre("b"));
  EXPECT_EQ(slots[0], &x);
  EXPECT_EQ(slots[2], nullptr);  // a program that does not hold it leaves the slot as it was
}

}  // namespace
}  // namespace tachy::cuda
