// Memory that the system fills when it is first read: a file's bytes, or zeros. Read-only; it ends with its owner.
#pragma once

#include <cstdint>
#include <system_error>
#include <utility>

#include "base/os/file.h"

namespace tachy::os {

class Mapping {
 public:
  Mapping() = default;
  // The first `bytes` of a file, at least one; the file may be closed before the mapping ends. not_enough_memory where there are
  // no addresses left. Reading what the file has lost since (it was cut short) is what signals.h's on_unreadable_page() tells.
  static Mapping of_file(const File& file, uint64_t bytes, std::error_code& error);
  // Zeros that cost address space alone: one page of the system's stands for all. At least one byte.
  static Mapping of_zeros(uint64_t bytes, std::error_code& error);

  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  void* data() const { return data_; }  // nullptr: none
  uint64_t size() const { return bytes_; }

 private:
  Mapping(void* data, uint64_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tachy::os
