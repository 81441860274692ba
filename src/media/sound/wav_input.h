// Shows libavformat a wav file as its format and one chunk of samples of the right size (wav_file.h). The
// samples are read from their places in the file. Private to src/media.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "media/sound/wav_file.h"
#include "media/video/libav.h"

namespace tachy::av {

class WavInput {
 public:
  WavInput(const std::filesystem::path& path, const WavFile& file);
  ~WavInput();
  WavInput(const WavInput&) = delete;
  AVIOContext* context() { return context_; }

 private:
  static int read(void* self, uint8_t* to, int count);
  static int64_t seek(void* self, int64_t to, int whence);
  int read_some(uint8_t* to, uint64_t count);

  std::ifstream file_;
  std::vector<uint8_t> head_;
  std::vector<WavFile::Part> parts_;
  uint64_t size_ = 0, at_ = 0;
  AVIOContext* context_ = nullptr;
};

}  // namespace tachy::av
