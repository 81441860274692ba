// The writer. Data is ordered by element size (largest first), then name, as the reference library does it:
// every tensor is then aligned for its dtype without holes, which the format forbids.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/last_words.h"
#include "weights/quote.h"
#include "weights/safetensors.h"

namespace tachy {
namespace {

std::string_view format_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::f8_e4m3:
      return "F8_E4M3";
    case DType::f8_e5m2:
      return "F8_E5M2";
    case DType::f64:
      return "F64";
    case DType::i64:
      return "I64";
    case DType::i32:
      return "I32";
    case DType::i16:
      return "I16";
    case DType::i8:
      return "I8";
    case DType::u8:
      return "U8";
    case DType::boolean:
      return "BOOL";
  }
  fail(ErrorCode::internal, "write_safetensors: unknown dtype");
}

std::string json_text(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::invalid_argument, "write_safetensors: {} is not UTF-8", in_quotes(text));
  }
}

// A file under a temporary name that becomes `path` on commit() and vanishes otherwise.
class PartFile {
 public:
  explicit PartFile(const std::filesystem::path& path) : path_(path.string()), part_(path_ + ".part") {
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    check(fd_ >= 0, ErrorCode::io, "{}: cannot create: {}", part_, std::strerror(errno));
    note_temporary(part_);
  }
  ~PartFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!committed_) ::unlink(part_.c_str());
    forget_temporary(part_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  void write(const void* data, uint64_t bytes) {
    auto at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t done = ::write(fd_, at, std::min<uint64_t>(bytes, 1u << 30));
      if (done < 0 && errno == EINTR) continue;
      check(done > 0, ErrorCode::io, "{}: cannot write: {}", path_, std::strerror(errno));
      at += done;
      bytes -= static_cast<uint64_t>(done);
    }
  }

  void commit() {
    check(::fsync(fd_) == 0, ErrorCode::io, "{}: cannot sync: {}", path_, std::strerror(errno));
    const int closed = ::close(std::exchange(fd_, -1));
    check(closed == 0, ErrorCode::io, "{}: cannot close: {}", path_, std::strerror(errno));
    check(::rename(part_.c_str(), path_.c_str()) == 0, ErrorCode::io, "{}: cannot rename the finished {}: {}",
          path_, part_, std::strerror(errno));
    committed_ = true;
  }

 private:
  std::string path_, part_;
  int fd_ = -1;
  bool committed_ = false;
};

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const int size_a = dtype_size(a.tensor.dtype), size_b = dtype_size(b.tensor.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
  std::set<std::string_view> names;
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      header += json_text(key) + ':' + json_text(value);
    }
    header += '}';
  }
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    require(name != "__metadata__" && names.insert(name).second, "write_safetensors: name {} is taken",
            in_quotes(name));
    require(tensor.defined() && tensor.contiguous() && tensor.device == Device::cpu,
            "write_safetensors: tensor {}: expected a contiguous CPU tensor", in_quotes(name));
    const auto bytes = static_cast<uint64_t>(tensor.bytes());
    if (header.size() > 1) header += ',';
    header += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_text(name),
                          format_name(tensor.dtype), fmt::join(tensor.shape(), ","), offset, offset + bytes);
    offset += bytes;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();

  PartFile out(path);
  out.write(&length, 8);
  out.write(header.data(), length);
  for (const auto& item : tensors) out.write(item.tensor.data, static_cast<uint64_t>(item.tensor.bytes()));
  out.commit();
}

}  // namespace tachy
