// A file mapped read-only into memory; the mapping ends with its owner.
//
// Weights are used where they lie: opening a 30 GB file costs a few system calls, pages arrive when first
// read and can be dropped by the kernel at any time. Writing through the pointers is a segmentation fault.
//
// The price: a file that somebody truncates while it is mapped raises SIGBUS when its pages are read.
// check_unchanged() finds that beforehand, base/last_words.h lets a handler name the file, and
// FileAccess::read avoids it altogether: the file is read into memory at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "tensor/memory.h"

namespace tachy {

enum class FileAccess { map, read };

// A mapping and its file, which stays open for modified_ns(), check_unchanged() and copy_from_file().
struct OpenMapping;

class MappedFile {
 public:
  MappedFile();
  // Throws not_found or io, naming the file. An empty file maps to zero bytes.
  explicit MappedFile(const std::filesystem::path& path, FileAccess access = FileAccess::map);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  const std::string& path() const { return path_; }
  bool in_memory() const { return copy_.data() != nullptr; }  // true if the file was read, not mapped

  // When the content last changed, in nanoseconds: as of now if the file is mapped, as of the reading
  // otherwise.
  int64_t modified_ns() const;

  // Throws io when the mapped file is no longer as long as it was.
  void check_unchanged() const;

 private:
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  int64_t modified_ns_ = 0;  // as of opening the file
  std::string path_;
  std::unique_ptr<OpenMapping> mapped_;
  Buffer copy_;
};

// Copies like memcpy, from anywhere. Bytes of a mapped file are read instead: the kernel then copies out of
// its cache without a page fault for each page, and with several threads at once it reads ahead from the
// disk. Throws io when the file has become shorter.
void copy_from_file(void* to, const void* from, size_t bytes);

}  // namespace tachy
