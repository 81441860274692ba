// Tests reading sound: comparison with librosa (tests/golden/media/make_sound_files.py), limits, damaged and
// hostile files.
#include "media/sound/sound_reader.h"

#include <gmock/gmock.h>

#include <bit>
#include <limits>
#include <random>

#include "hex_lines.h"
#include "media/video/video_writer.h"

namespace tachy {
namespace {
using namespace tachy::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SoundReaderTest : public MediaTest {};

void put_number(std::vector<uint8_t>& to, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(uint8_t(value >> (8 * i)));
}

// Makes a wav file of float samples whose header claims `told` bytes.
std::vector<uint8_t> wav(const std::vector<float>& samples, int channels, uint32_t told,
                         uint32_t rate = 8000) {
  std::vector<uint8_t> out;
  const auto tag = [&out](const char* text) { out.insert(out.end(), text, text + 4); };
  tag("RIFF"), put_number(out, 36 + told, 4), tag("WAVE"), tag("fmt "), put_number(out, 16, 4);
  put_number(out, 3, 2), put_number(out, uint32_t(channels), 2), put_number(out, rate, 4);
  put_number(out, rate * 4 * uint32_t(channels), 4), put_number(out, 4 * uint32_t(channels), 2);
  put_number(out, 32, 2), tag("data"), put_number(out, told, 4);
  for (const float v : samples) put_number(out, std::bit_cast<uint32_t>(v), 4);
  return out;
}

struct Case {
  const char *file, *codec;
  int rate, channels;
  double tolerance;  // other decoders of lossy codecs round differently
};

TEST_F(SoundReaderTest, AsLibrosa) {
  for (const Case& c : {Case{"read_s16.wav", "pcm_s16le", 44100, 2, 0},
                        {"read_s24.wav", "pcm_s24le", 48000, 1, 0},
                        {"read_u8.wav", "pcm_u8", 8000, 1, 0},
                        {"read_f32.wav", "pcm_f32le", 22050, 3, 1e-7},
                        {"read_f64.wav", "pcm_f64le", 16000, 1, 0},
                        {"read_stereo.flac", "flac", 44100, 2, 0},
                        {"read_mono.mp3", "mp3", 44100, 1, 1e-4},
                        {"read_opus.ogg", "opus", 48000, 2, 1e-3},
                        {"read_vorbis.ogg", "vorbis", 44100, 1, 1e-4},
                        {"read_aac.m4a", "aac", 44100, 2, 1e-5},
                        {"read_film.mp4", "aac", 48000, 2, 1e-5},
                        {"read_track.webm", "opus", 48000, 2, 1e-5}}) {
    const Sound sound = read_sound(golden(c.file));
    EXPECT_EQ(sound.codec, c.codec) << c.file;
    EXPECT_EQ(sound.rate, c.rate) << c.file;
    EXPECT_EQ(sound.channels, c.channels) << c.file;
    const auto got = read_speech(golden(c.file));
    const auto want = floats_of(golden(fs::path(c.file).replace_extension(".f32")));
    ASSERT_FALSE(want.empty()) << c.file;
    ASSERT_EQ(got.size(), want.size()) << c.file;
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i) largest = std::max(largest, std::abs(double(got[i]) - want[i]));
#if defined(__x86_64__)
    EXPECT_LE(largest, c.tolerance) << c.file;
#else
    EXPECT_LE(largest, c.tolerance + 2e-6) << c.file;
#endif
  }
}

// These containers and codings are as recorders leave them, with a size of samples that says nothing
// (tests/golden/media/make_odd_sounds.py).
TEST_F(SoundReaderTest, OddFilesAreReadWhole) {
  for (const HexLine& item : hex_lines("odd_sounds.txt")) {
    SCOPED_TRACE(item.name);
    write_bytes(folder_ / item.name, item.file);
    ::testing::internal::CaptureStderr();
    const Sound sound = read_sound(folder_ / item.name);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(sound.rate, item.width);
    EXPECT_EQ(sound.channels, item.height);
    std::vector<float> want(item.values.size() / sizeof(float));
    std::memcpy(want.data(), item.values.data(), item.values.size());
    ASSERT_EQ(sound.samples.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(sound.samples[i], want[i], 1e-7) << i;
  }
}

// A truncated recording is read as far as it goes, and a warning says so.
TEST_F(SoundReaderTest, CutWav) {
  fs::path path;
  int cuts = 0;
  // Each text is printed only once, so each file has its own name.
  const auto said = [&](const std::vector<uint8_t>& bytes, const std::vector<float>& want) {
    path = folder_ / fmt::format("cut{}.wav", cuts++);
    write_bytes(path, bytes);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(read_sound(path).samples, want);
    return ::testing::internal::GetCapturedStderr();
  };
  const std::vector<float> samples(5000, 0.25f), packet(4096, 0.25f);
  EXPECT_EQ(said(wav(samples, 1, 20000), samples), "");
  EXPECT_THAT(said(wav(samples, 1, 40000), samples), HasSubstr("says 1.25 seconds; the 0.62 that are there"));
  // The same holds if the last packet happens to be whole, and if a sample is not.
  EXPECT_THAT(said(wav(packet, 1, 20000), packet), HasSubstr("cut short"));
  auto part = wav(samples, 1, 30000);
  part.insert(part.end(), {1, 2, 3});
  EXPECT_THAT(said(part, samples), HasSubstr("says 0.94 seconds"));
  auto behind = wav(samples, 1, 20000);
  behind.resize(behind.size() + 40001, 7);
  EXPECT_THAT(said(behind, samples), HasSubstr("40001 bytes after them are not read"));
  for (const HexLine& item : hex_lines("odd_sounds.txt")) {
    if (item.name != "au-pcm_16" && item.name != "aiff-pcm_16" && item.name != "rf64-pcm_16" &&
        item.name != "w64-float")
      continue;
    std::vector<float> want(item.values.size() / sizeof(float));
    std::memcpy(want.data(), item.values.data(), item.values.size());
    want.resize(want.size() - 20);
    const size_t sample_bytes = item.name == "w64-float" ? 8 : 4;
    std::vector<uint8_t> file = item.file;
    file.resize(file.size() - 20 * sample_bytes);
    EXPECT_THAT(said(file, want), HasSubstr("cut short")) << item.name;
  }
  auto list = wav({}, 1, 0);
  list.insert(list.end(), {'L', 'I', 'S', 'T', 4, 0, 0, 0, 'I', 'N', 'F', 'O'});
  write_bytes(path, list);
  expect_error(ErrorCode::corrupt, {path.string(), "without samples"}, [&] { read_sound(path); });
}

// A truncated file is read as far as it goes, with the same samples as the whole file; there is a warning if
// it claims more.
TEST_F(SoundReaderTest, CutFiles) {
  struct Cut {
    const char* file;
    double least;  // least number of samples, in proportion to the bytes
    bool told;     // whether the file states how long it should be
  };
  for (const Cut& c : {Cut{"long.flac", 0.5, true},
                       {"long.mp3", 0.7, true},
                       {"long.ogg", 0, false},
                       {"read_s24.wav", 0.95, true}}) {
    const auto whole = bytes_of(golden(c.file));
    const Sound all = read_sound(golden(c.file));
    int read = 0;
    for (int percent = 30; percent < 100; percent += 7) {
      SCOPED_TRACE(fmt::format("{} {} %", c.file, percent));
      const fs::path path = folder_ / fmt::format("{}-{}", percent, c.file);
      write_bytes(path,
                  {whole.begin(), whole.begin() + std::ptrdiff_t(whole.size() * size_t(percent) / 100)});
      ::testing::internal::CaptureStderr();
      Sound sound;
      try {
        sound = read_sound(path);
      } catch (const Error& e) {
        EXPECT_EQ(c.least, 0) << e.what();  // the whole file is one page
      }
      const std::string said = ::testing::internal::GetCapturedStderr();
      if (sound.samples.empty()) continue;
      ++read;
      ASSERT_LE(sound.samples.size(), all.samples.size());
      EXPECT_GE(double(sound.samples.size()), c.least * percent / 100 * double(all.samples.size()));
      for (size_t i = 0; i < sound.samples.size(); ++i) ASSERT_EQ(sound.samples[i], all.samples[i]) << i;
      if (c.told && percent < 90) EXPECT_THAT(said, AllOf(HasSubstr(path.string()), HasSubstr("cut short")));
    }
    EXPECT_GT(read, c.least > 0 ? 9 : -1) << c.file;
  }
}

// An index at the end is lost with the end.
TEST_F(SoundReaderTest, CutBeforeTheIndex) {
  auto bytes = bytes_of(golden("read_aac.m4a"));
  bytes.resize(bytes.size() / 2);
  write_bytes(folder_ / "memo.m4a", bytes);
  expect_error(ErrorCode::corrupt, {"memo.m4a", "cut short", "index (moov)"},
               [&] { read_sound(folder_ / "memo.m4a"); });
}

// The same holds for a film whose index is at the front.
TEST_F(SoundReaderTest, CutFilms) {
  std::vector<float> tone(64000);
  for (size_t i = 0; i < tone.size(); ++i) tone[i] = 0.3f * std::sin(float(i) * 0.05f);
  for (const char* name : {"a.mp4", "b.webm"}) {
    VideoOptions options;
    options.sound = tone;
    auto writer = VideoWriter::open(folder_ / name, 64, 48, options);
    for (int t = 0; t < 64; ++t) writer->write(noise(64, 48, unsigned(t)).view());
    writer->finish();
    const auto whole = bytes_of(folder_ / name);
    const Sound all = read_sound(folder_ / name);
    int read = 0;
    for (const size_t percent : {50u, 65u, 80u}) {
      SCOPED_TRACE(fmt::format("{} {} %", name, percent));
      const fs::path path = folder_ / fmt::format("{}-{}", percent, name);
      write_bytes(path, {whole.begin(), whole.begin() + std::ptrdiff_t(whole.size() * percent / 100)});
      ::testing::internal::CaptureStderr();
      const Sound sound = read_sound(path);
      EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(name[0] == 'a' ? "cut short" : ""));
      ASSERT_LT(sound.samples.size(), all.samples.size());
      EXPECT_GT(double(sound.samples.size()), 0.2 * double(all.samples.size()));
      for (size_t i = 0; i < sound.samples.size(); ++i) ASSERT_EQ(sound.samples[i], all.samples[i]) << i;
      ++read;
    }
    EXPECT_EQ(read, 3);
  }
}

TEST_F(SoundReaderTest, ClearErrors) {
  expect_error(ErrorCode::not_found, {"none.wav"}, [&] { read_sound(folder_ / "none.wav"); });
  const fs::path text = folder_ / "text.wav", empty = folder_ / "empty.wav", bad = folder_ / "bad.wav";
  write_bytes(text, std::vector<uint8_t>(3000, 'a'));
  expect_error(ErrorCode::corrupt, {"text.wav", "expected a sound", "flac"}, [&] { read_sound(text); });
  write_bytes(empty, {});
  expect_error(ErrorCode::corrupt, {"empty.wav"}, [&] { read_sound(empty); });
  write_bytes(empty, wav({}, 1, 0));
  expect_error(ErrorCode::corrupt, {"empty.wav", "without samples"}, [&] { read_sound(empty); });
  for (const float v : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> samples(1000, 0.5f);
    samples[777] = v;
    write_bytes(bad, wav(samples, 2, 4000));
    expect_error(ErrorCode::corrupt, {"bad.wav", "sample 388", "finite"}, [&] { read_sound(bad); });
  }
  auto writer = VideoWriter::open(folder_ / "mute.mp4", 64, 64);
  for (int t = 0; t < 3; ++t) writer->write(wave(64, 64, t).view());
  writer->finish();
  expect_error(ErrorCode::unsupported, {"mute.mp4", "no sound"}, [&] { read_sound(folder_ / "mute.mp4"); });
}

TEST_F(SoundReaderTest, Limits) {
  const fs::path path = folder_ / "long.wav";
  write_bytes(path, wav(std::vector<float>(8000, 0.5f), 1, 32000));
  SoundLimits limits;
  limits.max_seconds = 1;
  EXPECT_EQ(read_sound(path, limits).samples.size(), 8000u);
  limits.max_seconds = 0.9;
  expect_error(ErrorCode::out_of_memory, {"long.wav", "0.9 seconds"}, [&] { read_sound(path, limits); });
  limits = {.max_samples = 8000};
  EXPECT_EQ(read_sound(path, limits).samples.size(), 8000u);
  limits.max_samples = 4000;
  expect_error(ErrorCode::out_of_memory, {"long.wav", "0.5 seconds"}, [&] { read_sound(path, limits); });
  write_bytes(path, wav(std::vector<float>(1700, 0.5f), 17, 6800));
  expect_error(ErrorCode::unsupported, {"16 channels", "17"}, [&] { read_sound(path); });
  for (const uint32_t rate : {1u, 999u, 768001u}) {
    write_bytes(path, wav(std::vector<float>(1000, 0.5f), 1, 4000, rate));
    expect_error(ErrorCode::unsupported, {"1000 to 768000"}, [&] { read_sound(path); });
  }
}

// A list that names other files is not a sound.
TEST_F(SoundReaderTest, OpensNoOtherFile) {
  const std::string list = "#EXTM3U\n#EXTINF:1,\nfile://" + golden("read_s16.wav").string() + "\n";
  const std::string concat = "ffconcat version 1.0\nfile " + golden("read_s16.wav").string() + "\n";
  for (const std::string& text : {list, concat}) {
    write_bytes(folder_ / "list.wav", {text.begin(), text.end()});
    expect_error(ErrorCode::corrupt, {"list.wav"}, [&] { read_sound(folder_ / "list.wav"); });
  }
}

// Whatever bytes change, the result is samples or an Error.
TEST_F(SoundReaderTest, DamagedFiles) {
  std::mt19937 random(11);
  for (const char* name : {"read_s16.wav", "read_stereo.flac", "read_mono.mp3", "read_opus.ogg",
                           "read_vorbis.ogg", "read_aac.m4a", "read_film.mp4", "read_track.webm"}) {
    const auto whole = bytes_of(golden(name));
    for (int round = 0; round < 40; ++round) {
      auto bytes = whole;
      for (int i = 0; i <= round % 7; ++i) bytes[random() % bytes.size()] = uint8_t(random());
      if (round % 3 == 0) bytes.resize(random() % bytes.size());
      write_bytes(folder_ / name, bytes);
      try {
        for (const float v : read_speech(folder_ / name)) ASSERT_TRUE(std::isfinite(v)) << name;
      } catch (const Error& e) {
        EXPECT_NE(e.message().find(name), std::string::npos) << e.what();
      }
    }
  }
}

// Small files are damaged in each byte, and cut at each length: the result is samples or an Error, within the
// memory that such a file may need.
TEST_F(SoundReaderTest, EveryByteDamagedAndEveryLength) {
  const auto most_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = most_kib();
  const SoundLimits limits{.max_seconds = 20};
  int read = 0, refused = 0;
  for (const char* name : {"read_u8.wav", "read_mono.mp3"}) {
    const auto whole = bytes_of(golden(name));
    const auto attempt = [&](const std::vector<uint8_t>& bytes) {
      write_bytes(folder_ / name, bytes);
      try {
        const Sound sound = read_sound(folder_ / name, limits);
        for (const float v : sound.samples) ASSERT_TRUE(std::isfinite(v)) << name;
        ASSERT_LE(double(sound.samples.size()), 20.0 * sound.rate);
        ++read;
      } catch (const Error& e) {
        EXPECT_NE(e.message().find(name), std::string::npos) << e.what();
        EXPECT_NE(to_string(e.code()), to_string(ErrorCode::internal)) << e.what();
        ++refused;
      }
    };
    for (size_t i = 0; i < whole.size(); ++i) {
      auto bytes = whole;
      bytes[i] = uint8_t(~bytes[i]);
      attempt(bytes);
      attempt({whole.begin(), whole.begin() + std::ptrdiff_t(i)});
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
  EXPECT_LT(most_kib() - before, 512 << 10) << "KiB";
}

}  // namespace
}  // namespace tachy
