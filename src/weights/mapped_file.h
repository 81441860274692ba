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

struct
    OpenMapping;  // a mapping and its file, which stays open for modified_ns(), check_unchanged() and copy_from_file()

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
  bool in_memory() const { return copy_.data() != nullptr; }  // read, not mapped

  // When its content last changed, in nanoseconds: now, if it is mapped; when it was read otherwise.
  int64_t modified_ns() const;

  // Throws io when the mapped file is no longer as long as it was.
  void check_unchanged() const;

 private:
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  int64_t modified_ns_ = 0;  // when it was opened
  std::string path_;
  std::unique_ptr<OpenMapping> mapped_;
  Buffer copy_;
};

// As memcpy from anywhere. What lies in a mapped file is read instead: the kernel copies out of its cache
// without a page fault a page, and with several threads at once reads ahead from the disk. Throws io when the
// file has become shorter.
void copy_from_file(void* to, const void* from, size_t bytes);

}  // namespace tachy
