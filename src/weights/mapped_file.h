// A file that is mapped read-only into memory until its owner is destroyed.
//
// Weights are used where they lie: opening a 30 GB file costs a few system calls. Pages are loaded when they
// are first read, and the kernel can drop them at any time. Writing through the pointers is a segmentation
// fault.
//
// This has a price: if somebody truncates a mapped file, reading its pages raises SIGBUS. check_unchanged()
// finds this beforehand, and base/last_words.h lets a handler name the file. FileAccess::read avoids the
// problem by reading the whole file into memory at once.
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

  // When the content last changed, in nanoseconds: by now if the file is mapped, otherwise by the time it was
  // read.
  int64_t modified_ns() const;

  // Throws io if the mapped file no longer has its length.
  void check_unchanged() const;

 private:
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  int64_t modified_ns_ = 0;  // when the file was opened
  std::string path_;
  std::unique_ptr<OpenMapping> mapped_;
  Buffer copy_;
};

// Copies like memcpy, from any memory. But bytes of a mapped file are read from the file: the kernel then
// copies from its cache without one page fault per page, and with several threads it reads ahead from the
// disk. Throws io if the file has become shorter.
void copy_from_file(void* to, const void* from, size_t bytes);

}  // namespace tachy
