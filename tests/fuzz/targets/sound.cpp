// Fuzzes a sound: container, decoder, another rate, and loudness. The first byte chooses the rate and the
// size of the pieces.
#include <cmath>

#include "../fuzz_input.h"
#include "media/sound/loudness.h"
#include "media/sound/resampler.h"
#include "media/sound/sound_reader.h"

using namespace tachy;

namespace {

void check_speech(const Sound& sound, uint8_t choice) {
  if (sound.samples.empty() || sound.rate < kMinSampleRate || sound.rate > kMaxSampleRate) std::abort();
  for (const float v : sound.samples)
    if (!std::isfinite(v)) std::abort();
  constexpr int kRates[] = {kSpeechRate, 48000, 22050, 7999};
  const int rate = kRates[choice % 4];
  std::vector<float> speech;
  Resampler resampler(sound.rate, rate);
  const size_t piece = choice < 128 ? sound.samples.size() : 1 + choice;
  for (size_t at = 0; at < sound.samples.size(); at += piece)
    resampler.push(std::span(sound.samples).subspan(at, std::min(piece, sound.samples.size() - at)), speech);
  resampler.finish(speech);
  if (std::ssize(speech) != resampled_length(std::ssize(sound.samples), sound.rate, rate)) std::abort();
  fuzz::expect_error_or_result([&] { normalise_loudness(speech, rate); });
  fuzz::expect_error_or_result([&] { standardise(speech); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  static fuzz::MemoryFile file;
  file.set(fuzz::view(data + 1, size - 1));
  // At most 20 seconds are read: a few bytes of some codecs are hours of silence, which are allowed, but slow
  // here.
  fuzz::expect_error_or_result([&] { check_speech(read_sound(file.path(), {.max_seconds = 20}), data[0]); });
  return 0;
}
