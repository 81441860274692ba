// Tests the messages about cuDNN and cuBLASLt that are missing, are files of another kind, or are too old. Needs no CUDA.
#include "cuda/vendor/vendor_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/os/process.h"

namespace tachy::cuda {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class VendorLibraries : public testing::Test {
 protected:
  VendorLibraries() {
    fs::create_directories(folder_ / "cudnn/lib");
    ::setenv("TACHY_CUDA_LIBRARIES", folder_.c_str(), 1);
  }
  ~VendorLibraries() override {
    ::unsetenv("TACHY_CUDA_LIBRARIES");
    fs::remove_all(folder_);
  }
  // No system has libraries of these names.
  bool open(const char* name) {
    const char* const names[] = {name};
    const char* const packages[] = {"cudnn/lib"};
    return library_.open(names, packages, why_);
  }

  const fs::path folder_ = fs::temp_directory_path() / ("vendor_" + std::to_string(os::process_id()));
  VendorLibrary library_;
  std::string why_;
};

TEST_F(VendorLibraries, AMissingOneIsNamedWithThePackageThatBringsIt) {
  EXPECT_FALSE(open("libcudnn_of_a_test.so.9"));
  EXPECT_THAT(why_, AllOf(StartsWith("libcudnn_of_a_test.so.9 was not found"),
                          HasSubstr("pip install nvidia-cudnn-cu13"), HasSubstr("TACHY_CUDA_LIBRARIES")));
  EXPECT_FALSE(open("libcublasLt_of_a_test.so.13"));
  EXPECT_THAT(why_, AllOf(HasSubstr("libcublasLt_of_a_test.so.13"), HasSubstr("pip install nvidia-cublas "),
                          Not(HasSubstr("cudnn"))));
}

TEST_F(VendorLibraries, AFileThatIsNoLibraryIsNamed) {
  const fs::path file = folder_ / "cudnn/lib/libcudnn_of_a_test.so.9";
  std::ofstream(file) << "no library";
  EXPECT_FALSE(open("libcudnn_of_a_test.so.9"));
  EXPECT_THAT(why_, AllOf(StartsWith("could not open it: "), HasSubstr(file.string())));
}

TEST_F(VendorLibraries, OneThatIsTooOldIsNamedWithTheFunctionThatItLacks) {
  fs::copy_file(STANDIN_DRIVER, folder_ / "cudnn/lib/libcudnn_of_a_test.so.9");
  ASSERT_TRUE(open("libcudnn_of_a_test.so.9")) << why_;
  int (*init)(unsigned) = nullptr;
  library_.find("cuInit", init);
  EXPECT_NE(init, nullptr);
  void (*newer)() = nullptr;
  try {
    library_.find("cudnnOfTheFuture", newer);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_THAT(e.message(), AllOf(HasSubstr("cudnnOfTheFuture"), HasSubstr("a newer version is needed")));
  }
}

}  // namespace
}  // namespace tachy::cuda
