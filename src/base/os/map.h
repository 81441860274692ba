// Memory that the system fills when it is first read, with a file's bytes or with zeros. It is read-only and
// is unmapped when its owner is destroyed.
#pragma once

#include <cstdint>
#include <system_error>
#include <utility>

#include "base/os/file.h"

namespace tachy::os {

class Mapping {
 public:
  Mapping() = default;
  // Maps the first `bytes` of a file, at least one; the file may be closed while the mapping is in use.
  // Returns not_enough_memory if no addresses are left. If the file is truncated later, reading the missing
  // part is reported to on_unreadable_page() in signals.h.
  static Mapping of_file(const File& file, uint64_t bytes, std::error_code& error);
  // Maps at least one byte of zeros. They take only address space, since one page of the system stands for
  // all.
  static Mapping of_zeros(uint64_t bytes, std::error_code& error);

  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  void* data() const { return data_; }  // nullptr if nothing is mapped
  uint64_t size() const { return bytes_; }

 private:
  Mapping(void* data, uint64_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tachy::os
