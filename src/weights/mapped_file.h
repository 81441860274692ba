// A file mapped read-only into memory; the mapping ends with its owner.
//
// Weights are used where they lie: opening a 30 GB file costs a few system calls, pages arrive when first
// read and can be dropped by the kernel at any time. Writing through the pointers is a segmentation fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace tachy {

class MappedFile {
 public:
  MappedFile() = default;
  // Throws not_found or io, naming the file. An empty file maps to zero bytes.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  const std::string& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  std::string path_;
};

}  // namespace tachy
