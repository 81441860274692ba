// Reads the sound of a file (wav with RF64, BW64 and W64, mp3, aac and m4a, flac, opus and vorbis in ogg, aiff, au, caf, the sound
// track of a video) as one channel: the mean of the file's channels, summed in their order in float32, as librosa loads sound.
//
// Files are taken for hostile, as by VideoReader: only listed containers and codecs are tried, a file cannot make
// the reader open another one, its length is capped. One that ends before its header says is read as far as it goes, with a warning;
// one of which a part within cannot be decoded is an error: speech with a hole would move lips at the wrong time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tachy {

inline constexpr int kSpeechRate = 16000;  // what models of speech hear, in Hz

struct Sound {
  int rate = 0;                // samples a second
  int channels = 0;            // of the file
  std::string codec;           // "pcm_s16le", "mp3", "opus" …
  std::vector<float> samples;  // full scale is -1 to 1; beyond it where the file is
};

struct SoundLimits {
  double max_seconds = 7200;  // longer ones are an error
  int max_channels = 16;
};

// Throws not_found, io, unsupported (no container or codec that is taken, no sound in it) or corrupt.
Sound read_sound(const std::filesystem::path& path, const SoundLimits& limits = {});

// The same at 16 kHz, as librosa.load(path, sr=16000, mono=True) gives it.
std::vector<float> read_speech(const std::filesystem::path& path, const SoundLimits& limits = {});

}  // namespace tachy
