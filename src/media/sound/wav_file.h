// Finds the samples of a wav file, even if its header states a wrong length.
//
//   RIFF, RF64, BW64   name (4 bytes), size (4), "WAVE", then chunks: name (4), size (4), content, padding to
//                      an even number. RF64 and BW64 keep the size of their samples in a chunk ds64.
//   W64                a name of 16 bytes, size (8), "wave" (16), then chunks: name (16), size (8), content,
//                      padding to a multiple of 8. A chunk's size includes the 24 bytes of name and size.
//
// Programs that write to a pipe do not know the size of their samples beforehand and write a placeholder: 0,
// or the largest number that they know (0x7ffff000, 0x7fffffff, 2,000,000,000, 0xffffffff less a header …).
// Their samples reach to the end of the file, which needs no warning; a truncated file does. Each version of
// libavformat handles only some of these cases, and if there are several chunks of samples, it reads only the
// last. So it is given a single chunk of the right size. Private to src/media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace tachy {

// Nobody records 1.9 GB into a file whose size is counted with 32 bits, so a program that writes such a size
// does not know the real one.
inline constexpr uint64_t kLeastPlaceholder = 1'900'000'000;

struct WavFile {
  struct Part {
    uint64_t at = 0, bytes = 0;
  };
  std::vector<uint8_t> format;  // the content of the chunk "fmt "
  std::vector<Part> parts;      // the parts of the file that hold samples
  uint64_t told = 0;            // the size that a truncated file should have; 0 for others
  uint64_t behind = 0;          // bytes after the last chunk

  uint64_t bytes() const;  // the total of all parts
};

// Returns nothing for a file of another kind, or if its format or its samples are missing.
std::optional<WavFile> find_wav(const std::filesystem::path& path);

}  // namespace tachy
