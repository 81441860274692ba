#include "base/os/map.h"

#include <sys/mman.h>

#include "base/os/posix/calls.h"

namespace tachy::os {

Mapping Mapping::of_file(const File& file, uint64_t bytes, std::error_code& error) {
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor(file), 0);
  error = error_of(data == MAP_FAILED);
  return error ? Mapping() : Mapping(data, bytes);
}

Mapping Mapping::of_zeros(uint64_t bytes, std::error_code& error) {
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  error = error_of(data == MAP_FAILED);
  return error ? Mapping() : Mapping(data, bytes);
}

Mapping::~Mapping() {
  if (data_) ::munmap(data_, bytes_);
}

}  // namespace tachy::os
