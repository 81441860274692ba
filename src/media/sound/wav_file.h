// Where the samples of a wav file lie, whatever its header says of their length.
//
//   RIFF, RF64, BW64   name (4 bytes), size (4), "WAVE", then chunks: name (4), size (4), content, padding to an even number.
//                      RF64 and BW64 keep the size of their samples in a chunk ds64.
//   W64                a name of 16 bytes, size (8), "wave" (16), then chunks: name (16), size (8, with these 24), content, padding
//                      to a multiple of 8
//
// Programs that write to a pipe cannot know the size of their samples beforehand and leave a placeholder there: 0, or the largest
// number that they know (0x7ffff000, 0x7fffffff, 2,000,000,000, 0xffffffff less a header …). Their samples go on to the end of the
// file, which is no reason for a word; one that was cut is. libavformat knows some of this, another part in each version, and reads
// the last one of several chunks of samples: it is given one whose size is right. Private to src/media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace tachy {

// Nobody records 1.9 GB into a file whose size is counted with 32 bits; what writes such a size does not know it.
inline constexpr uint64_t kLeastPlaceholder = 1'900'000'000;

struct WavFile {
  struct Part {
    uint64_t at = 0, bytes = 0;
  };
  std::vector<uint8_t> format;  // the content of the chunk "fmt "
  std::vector<Part> parts;      // of the file, with samples
  uint64_t told = 0;            // bytes that a file which was cut should have; 0 for others
  uint64_t behind = 0;          // bytes behind the last chunk that belong to none

  uint64_t bytes() const;  // of all parts
};

// Nothing for a file of another kind, and where the format or the samples are missing.
std::optional<WavFile> find_wav(const std::filesystem::path& path);

}  // namespace tachy
