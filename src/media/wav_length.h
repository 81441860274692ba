// How long a wav file says that it is, beside how long it is.
//
//   RIFF size WAVE, then chunks: name (4 bytes), size (4), content, padding to an even number
//
// Programs that write to a pipe cannot know the size of their samples beforehand and leave a placeholder there: 0, or the largest
// number that they know (0x7ffff000, 0x7fffffff, 2,000,000,000, 0xffffffff less a header …). Their samples go on to the end of the
// file, which is no reason for a word. libavformat reads them so, too; it says nothing of a file that was cut.
// Private to src/media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tachy {

struct WavLength {
  uint64_t told = 0, there = 0;  // bytes of samples: by the header, and up to the end of the file
  bool placeholder = false;      // `told` says nothing
  bool empty = false;            // there are no samples: a size of 0, and other chunks behind it
  int parts = 1;                 // chunks of samples
  uint64_t behind = 0;           // bytes behind the samples that are no chunks of a wav file
  bool cut() const { return !placeholder && told > there; }
};

// Nothing for a file of another kind, and where there is no chunk of samples.
std::optional<WavLength> wav_length(const std::filesystem::path& path);

}  // namespace tachy
