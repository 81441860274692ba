// Reads the sound of a file (wav with RF64, BW64 and W64, mp3, aac and m4a, flac, opus and vorbis in ogg,
// aiff, au, caf, or the sound track of a video) as one channel. This is the mean of the file's channels,
// summed in their order in float32, as in librosa.
//
// Files are treated as hostile, as in VideoReader: only listed containers and codecs are tried, a file cannot
// make the reader open another one, and its length is limited. If a file is shorter than its header says, the
// existing part is read, with a warning. A part in the middle that cannot be decoded is an error, because
// after a gap lips would move at the wrong time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tachy {

inline constexpr int kSpeechRate = 16000;  // the rate in Hz that models of speech expect

struct Sound {
  int rate = 0;                // samples per second
  int channels = 0;            // channels of the file
  std::string codec;           // "pcm_s16le", "mp3", "opus" …
  std::vector<float> samples;  // full scale is -1 to 1; the file may exceed it
};

struct SoundLimits {
  double max_seconds = 7200;  // longer sounds are an error
  int max_channels = 16;
  double max_samples = 1e18;  // of one channel, at the file's own rate: 4 bytes each while it is read
  double seconds_at(int rate) const { return std::min(max_seconds, max_samples / rate); }
};

// Throws not_found, io, unsupported (an unknown container or codec, or a file without sound), or corrupt.
Sound read_sound(const std::filesystem::path& path, const SoundLimits& limits = {});

// Does the same at 16 kHz, like librosa.load(path, sr=16000, mono=True).
std::vector<float> read_speech(const std::filesystem::path& path, const SoundLimits& limits = {});

}  // namespace tachy
