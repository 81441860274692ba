// Reads the directory of a stored (uncompressed) zip in memory, as far as torch checkpoints need it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace tachy {

struct ZipEntry {
  uint64_t offset = 0;  // where the entry's bytes begin in the file
  uint64_t bytes = 0;
};
using ZipDirectory = std::map<std::string, ZipEntry, std::less<>>;

// Reads the central directory (zip64, too) and each entry's local header. Throws corrupt for an archive that
// contradicts itself or refers to bytes outside the file, and unsupported for compressed or encrypted
// entries. `path` names the file in errors.
ZipDirectory read_zip_directory(std::span<const std::byte> file, std::string_view path);

}  // namespace tachy
