// Synthetic frames, comparisons, and a folder for every test of media.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "media/frame.h"

namespace tachy::testing {
namespace fs = std::filesystem;

inline fs::path golden(const std::string& name) {
  return fs::path(TACHY_SOURCE_DIR) / "tests/golden/media" / name;
}

// Draws smooth colour waves that move with t.
inline RgbFrame wave(int width, int height, int t) {
  RgbFrame out(width, height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      double u = double(x) / width, v = double(y) / height, s = t * 0.15;
      uint8_t* p = out.row(y) + 3 * x;
      p[0] = uint8_t(127.5 + 110 * std::sin(4 * u + s));
      p[1] = uint8_t(127.5 + 110 * std::sin(5 * v - s + 1));
      p[2] = uint8_t(127.5 + 110 * std::sin(3 * (u + v) + s + 2));
    }
  return out;
}

inline RgbFrame flat(int width, int height, uint8_t r, uint8_t g, uint8_t b) {
  RgbFrame out(width, height);
  for (size_t i = 0; i < out.rgb.size(); i += 3) out.rgb[i] = r, out.rgb[i + 1] = g, out.rgb[i + 2] = b;
  return out;
}

inline double psnr(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    sum += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
  return sum == 0 ? 99 : 10 * std::log10(255.0 * 255.0 * double(a.size()) / sum);
}

inline int max_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  int largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(int(a[i]) - b[i]));
  return largest;
}

inline std::vector<uint8_t> bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<float> floats_of(const fs::path& path) {
  const std::vector<uint8_t> bytes = bytes_of(path);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

inline void write_bytes(const fs::path& path, const std::vector<uint8_t>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

// Simulates a full disk: no file of this process may grow beyond `bytes`, and writes fail with EFBIG.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

inline RgbFrame noise(int width, int height, unsigned seed) {
  RgbFrame out(width, height);
  for (uint8_t& v : out.rgb) v = uint8_t((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

class MediaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tachy_media_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::error_code ec;
    fs::remove_all(folder_, ec);
  }
  // Returns the names in the folder, including hidden ones.
  std::set<std::string> listing() const {
    std::set<std::string> out;
    for (const auto& e : fs::recursive_directory_iterator(folder_))
      out.insert(fs::relative(e.path(), folder_).string());
    return out;
  }
  fs::path folder_;
};

// Runs `action`, which must throw an Error of this code whose text contains every one of `parts`.
template <class F>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, F&& action) {
  try {
    action();
    ADD_FAILURE() << "expected an error: " << to_string(code);
  } catch (const Error& e) {
    EXPECT_EQ(to_string(e.code()), to_string(code)) << e.what();
    for (const std::string& part : parts) EXPECT_NE(e.message().find(part), std::string::npos) << e.what();
  }
}

}  // namespace tachy::testing
