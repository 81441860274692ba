// Helpers that the files of this folder share.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "base/os/file.h"

namespace tachy::os {

inline int descriptor(const File& file) { return static_cast<int>(file.handle()); }

// Returns why the last call failed.
inline std::error_code last_error() { return {errno, std::generic_category()}; }
// Returns the reason if `result`, a call's return value, is not 0, and no error otherwise.
inline std::error_code error_of(int result) { return result == 0 ? std::error_code() : last_error(); }

inline FileFacts facts_of(const struct stat& info) {
  return {.bytes = static_cast<uint64_t>(info.st_size),
          .modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
          .regular = S_ISREG(info.st_mode)};
}

}  // namespace tachy::os
