#include "media/sound_reader.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "media/resampler.h"
#include "media/video_input.h"

namespace tachy {
namespace {

constexpr av::Allowed kSounds = {"wav,w64,mp3,aac,flac,ogg,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi",
                                 "pcm_u8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_"
                                 "f32le,pcm_f32be,pcm_f64le,pcm_f64be,"
                                 "pcm_alaw,pcm_mulaw,mp3float,mp3,aac,alac,flac,opus,vorbis",
                                 "a sound (wav, mp3, m4a, aac, flac, ogg, or a video with sound)"};

template <class T>
float full_scale(T value) {
  if constexpr (std::is_same_v<T, uint8_t>)
    return float(value - 128) / 128.0f;
  else if constexpr (std::is_integral_v<T>)
    return float(double(value) / -double(std::numeric_limits<T>::min()));
  else
    return float(value);
}

// Adds the frame's samples, one for all channels.
template <class T>
void append_mean(const AVFrame& frame, bool planar, std::vector<float>& out) {
  const int channels = frame.ch_layout.nb_channels;
  const T* together = reinterpret_cast<const T*>(frame.extended_data[0]);
  for (int i = 0; i < frame.nb_samples; ++i) {
    float sum = 0;
    for (int c = 0; c < channels; ++c)
      sum += full_scale(planar ? reinterpret_cast<const T*>(frame.extended_data[c])[i]
                               : together[int64_t(i) * channels + c]);
    out.push_back(sum / float(channels));
  }
}

uint32_t little_endian(const uint8_t* bytes) {
  return bytes[0] | uint32_t(bytes[1]) << 8 | uint32_t(bytes[2]) << 16 | uint32_t(bytes[3]) << 24;
}

// libavformat takes a wav file that was cut at the end of a packet for a whole one, so its chunks are looked at
// here. Programs that write to a pipe cannot know the size: they leave the largest number there, and the last
// packet, which libavformat then calls corrupt, is whole all the same. True if the size was checked.
bool check_wav_length(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  uint8_t head[12] = {};
  std::error_code ec;
  const uint64_t size = std::filesystem::file_size(path, ec);
  if (ec || !in.read(reinterpret_cast<char*>(head), 12)) return false;
  if (std::memcmp(head, "RIFF", 4) != 0 || std::memcmp(head + 8, "WAVE", 4) != 0) return false;
  for (uint64_t at = 12; at + 8 <= size;) {
    if (!in.seekg(int64_t(at)) || !in.read(reinterpret_cast<char*>(head), 8)) return false;
    const uint32_t told = little_endian(head + 4);
    if (std::memcmp(head, "data", 4) == 0) {
      check(told == 0xffffffff || at + 8 + told <= size, ErrorCode::corrupt,
            "{}: cut short: its header tells of {} bytes of samples, it has {}", path.string(), told,
            size - at - 8);
      return true;
    }
    at += 8 + uint64_t(told) + told % 2;
  }
  return false;
}

class SoundReader {
 public:
  SoundReader(const std::filesystem::path& path, const SoundLimits& limits)
      : name_(path.string()),
        limits_(limits),
        input_(av::open_input(path, kSounds)),
        length_checked_(check_wav_length(path)) {
    int rc = avformat_find_stream_info(input_.get(), nullptr);
    check(rc >= 0, ErrorCode::corrupt, "{}: cannot find the streams: {}", name_, av::reason(rc));
    const AVCodec* decoder = nullptr;
    const int index = av_find_best_stream(input_.get(), AVMEDIA_TYPE_AUDIO, -1, -1, &decoder, 0);
    check(index >= 0 && decoder != nullptr, ErrorCode::unsupported,
          "{}: no sound in this file that can be decoded", name_);
    stream_ = input_->streams[index];
    for (unsigned i = 0; i < input_->nb_streams; ++i)
      if (int(i) != index) input_->streams[i]->discard = AVDISCARD_ALL;
    codec_ = av::new_codec(decoder);
    rc = avcodec_parameters_to_context(codec_.get(), stream_->codecpar);
    check(rc >= 0, ErrorCode::corrupt, "{}: bad stream parameters: {}", name_, av::reason(rc));
    codec_->pkt_timebase = stream_->time_base;  // to cut off what encoders put before and after the sound
    av::Dictionary only(av::Options{{"codec_whitelist", kSounds.decoders}});
    rc = avcodec_open2(codec_.get(), decoder, only.get());
    check(rc >= 0, ErrorCode::unsupported, "{}: cannot start the decoder {}: {}", name_, decoder->name,
          av::reason(rc));
    frame_ = av::new_frame();
    packet_ = av::new_packet();
    sound_.codec = avcodec_get_name(codec_->codec_id);
  }

  Sound read() {
    for (;;) {
      const int rc = avcodec_receive_frame(codec_.get(), frame_.get());
      if (rc == AVERROR_EOF) break;
      if (rc == AVERROR(EAGAIN)) {
        feed();
        continue;
      }
      check(rc >= 0, ErrorCode::corrupt, "{}: cannot decode near {}: {}", name_, place(), av::reason(rc));
      check(frame_->decode_error_flags == 0 && !(frame_->flags & AV_FRAME_FLAG_CORRUPT), ErrorCode::corrupt,
            "{}: damaged near {}: {}", name_, place(), av::reason(AVERROR_INVALIDDATA));
      take_frame();
      av_frame_unref(frame_.get());
    }
    check(!sound_.samples.empty(), ErrorCode::corrupt, "{}: a sound without samples", name_);
    check_length();
    return std::move(sound_);
  }

 private:
  std::string place() const { return fmt::format("sample {}", sound_.samples.size()); }

  void feed() {
    if (!av::next_packet(*input_, *stream_, *packet_, name_, place())) {
      avcodec_send_packet(codec_.get(), nullptr);
      return;
    }
    check(length_checked_ || !(packet_->flags & AV_PKT_FLAG_CORRUPT), ErrorCode::corrupt,
          "{}: the data after {} are cut short", name_, place());
    const int rc = avcodec_send_packet(codec_.get(), packet_.get());
    av_packet_unref(packet_.get());
    check(rc >= 0, ErrorCode::corrupt, "{}: cannot decode near {}: {}", name_, place(), av::reason(rc));
  }

  void take_frame() {
    const int rate = frame_->sample_rate, channels = frame_->ch_layout.nb_channels;
    if (sound_.rate == 0) {
      check(rate >= kMinSampleRate && rate <= kMaxSampleRate && channels >= 1 &&
                channels <= limits_.max_channels,
            ErrorCode::unsupported, "{}: expected {} to {} Hz and 1 to {} channels, got {} Hz and {}", name_,
            kMinSampleRate, kMaxSampleRate, limits_.max_channels, rate, channels);
      sound_.rate = rate, sound_.channels = channels;
    }
    check(rate == sound_.rate && channels == sound_.channels, ErrorCode::unsupported,
          "{}: {} has {} Hz and {} channels, the sound before it {} Hz and {}", name_, place(), rate,
          channels, sound_.rate, sound_.channels);
    const size_t before = sound_.samples.size();
    check(double(before) + frame_->nb_samples <= limits_.max_seconds * rate, ErrorCode::out_of_memory,
          "{}: longer than {} seconds; cut it", name_, limits_.max_seconds);
    append();
    for (size_t i = before; i < sound_.samples.size(); ++i)
      check(std::isfinite(sound_.samples[i]), ErrorCode::corrupt, "{}: sample {} is not a finite number",
            name_, i);
  }

  void append() {
    const auto format = AVSampleFormat(frame_->format);
    const bool planar = av_sample_fmt_is_planar(format) != 0;
    switch (av_get_packed_sample_fmt(format)) {
      case AV_SAMPLE_FMT_U8:
        return append_mean<uint8_t>(*frame_, planar, sound_.samples);
      case AV_SAMPLE_FMT_S16:
        return append_mean<int16_t>(*frame_, planar, sound_.samples);
      case AV_SAMPLE_FMT_S32:
        return append_mean<int32_t>(*frame_, planar, sound_.samples);
      case AV_SAMPLE_FMT_FLT:
        return append_mean<float>(*frame_, planar, sound_.samples);
      case AV_SAMPLE_FMT_DBL:
        return append_mean<double>(*frame_, planar, sound_.samples);
      default:
        fail(ErrorCode::unsupported, "{}: unknown sample format {}", name_, int(format));
    }
  }

  // The header of flac counts the samples. Elsewhere a duration is an estimate.
  void check_length() const {
    if (std::string_view(input_->iformat->name) != "flac" || stream_->duration <= 0) return;
    const int64_t told = av_rescale_q(stream_->duration, stream_->time_base, {1, sound_.rate});
    check(int64_t(sound_.samples.size()) >= told, ErrorCode::corrupt,
          "{}: cut short: its header tells of {} samples, it has {}", name_, told, sound_.samples.size());
  }

  std::string name_;
  SoundLimits limits_;
  av::InputPtr input_;
  bool length_checked_;
  AVStream* stream_ = nullptr;
  av::CodecPtr codec_;
  av::FramePtr frame_;
  av::PacketPtr packet_;
  Sound sound_;
};

}  // namespace

Sound read_sound(const std::filesystem::path& path, const SoundLimits& limits) {
  av::quiet();
  return SoundReader(path, limits).read();
}

std::vector<float> read_speech(const std::filesystem::path& path, const SoundLimits& limits) {
  const Sound sound = read_sound(path, limits);
  return resample(sound.samples, sound.rate, kSpeechRate);
}

}  // namespace tachy
