// Parts that the weights tests share: a temporary folder, golden paths, and the check "throws this code with
// this text".
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "weights/tensor_source.h"

namespace tachy::test {

namespace fs = std::filesystem;

inline fs::path golden(const std::string& name) {
  return fs::path(TACHY_SOURCE_DIR) / "tests/golden/weights" / name;
}

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "tachy_weights_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline fs::path write_bytes(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  fs::remove(path);  // overwriting in place makes some file systems flush, and the fuzz loops would take
                     // minutes
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// Returns a safetensors file of `header` and `data`, with a true header length.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

// A tensor as a safetensors header states it, for files that no library writes.
struct RawTensor {
  std::string name, dtype, shape;  // for example "F8_E4M3", "[2,32]"
  std::string data;
};
inline std::string safetensors_bytes(const std::vector<RawTensor>& tensors) {
  std::string header = "{", data;
  for (const RawTensor& t : tensors) {
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                          header.size() > 1 ? "," : "", t.name, t.dtype, t.shape, data.size(),
                          data.size() + t.data.size());
    data += t.data;
  }
  return safetensors_bytes(header + "}", data);
}

inline void expect_error(ErrorCode code, const std::string& text, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "expected an error that says: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    EXPECT_THAT(e.message(), testing::HasSubstr(text));
  }
}

// Opens `bytes` as a file and returns whether that succeeded. Anything but an Error (a crash, a foreign
// exception) fails the test. A file that opens is read to its last byte, so that the sanitizers see wrong
// ranges.
inline bool opens_or_refuses(const fs::path& path, std::string_view bytes) {
  write_bytes(path, bytes);
  try {
    const auto source = open_weights(path);
    volatile unsigned sum = 0;
    for (const auto& entry : source->entries()) {
      const auto* data = static_cast<const unsigned char*>(entry.data);
      if (entry.derived) {  // its values are made when they are read
        std::vector<uint16_t> values(std::min<uint64_t>(entry.bytes * 8, 1 << 20));
        int64_t width = 1;
        for (size_t i = 1; i < entry.dims.size(); ++i) width *= entry.dims[i];
        for (int64_t row = 0; row < entry.dims[0] && width > 0; ++row)
          decode_values(*entry.derived, width, row * width, Tensor(values.data(), DType::bf16, {width}));
      }
      if (!data) continue;
      for (uint64_t i = 0; i < entry.bytes; ++i) sum = sum + data[i];
    }
    return true;
  } catch (const Error& e) {
    EXPECT_THAT(e.message(), testing::HasSubstr(path.filename().string()));
    return false;
  }
}

// Returns element `i` of a golden ramp: (i - 5) / 4, exact in every float type used.
inline float ramp(int64_t i) { return static_cast<float>(i - 5) / 4; }

template <class T>
T element(const TensorSource::Entry& entry, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(entry.data) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Checks the contents that every file made from make.py's all_dtypes() must have.
void expect_all_dtypes(const TensorSource& source);

}  // namespace tachy::test
