#include "media/sound/sound_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/log.h"
#include "media/sound/resampler.h"
#include "media/sound/wav_input.h"
#include "media/video/video_input.h"

namespace tachy {
namespace {

// "wav" includes RF64 and BW64.
constexpr av::Allowed kSounds = {
    "wav,w64,au,aiff,caf,mp3,aac,flac,ogg,mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi",
    "pcm_u8,pcm_s8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f32be,pcm_f64le,"
    "pcm_f64be,pcm_alaw,pcm_mulaw,adpcm_ms,adpcm_ima_wav,mp3float,mp3,aac,alac,flac,opus,vorbis",
    "a sound (wav, mp3, m4a, aac, flac, ogg, aiff, au, caf, or a video with sound)", Wanted::sound};

// A truncated file has at most one packet that ends too early; more than a few are damage.
constexpr int kMostTroubles = 3;

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

class SoundReader {
 public:
  SoundReader(const std::filesystem::path& path, const SoundLimits& limits)
      : name_(path.string()), limits_(limits), wav_(find_wav(path)) {
    check(!wav_ || !wav_->parts.empty(), ErrorCode::corrupt, "{}: a sound without samples", name_);
    if (wav_) wav_source_ = std::make_unique<av::WavInput>(path, *wav_);
    input_ = av::open_input(path, kSounds, wav_ ? wav_source_->context() : nullptr);
    int rc = avformat_find_stream_info(input_.get(), nullptr);
    check(rc >= 0, ErrorCode::corrupt, "{}: cannot find the streams: {}", name_, av::reason(rc));
    const AVCodec* decoder = nullptr;
    const int index = av_find_best_stream(input_.get(), AVMEDIA_TYPE_AUDIO, -1, -1, &decoder, 0);
    check(index >= 0 && decoder != nullptr, ErrorCode::unsupported,
          "{}: this file has no sound that can be decoded", name_);
    stream_ = input_->streams[index];
    for (unsigned i = 0; i < input_->nb_streams; ++i)
      if (int(i) != index) input_->streams[i]->discard = AVDISCARD_ALL;
    codec_ = av::new_codec(decoder);
    rc = avcodec_parameters_to_context(codec_.get(), stream_->codecpar);
    check(rc >= 0, ErrorCode::corrupt, "{}: bad stream parameters: {}", name_, av::reason(rc));
    // This is needed to cut off the samples that encoders add before and after the sound.
    codec_->pkt_timebase = stream_->time_base;
    av::Dictionary only(av::Options{{"codec_whitelist", kSounds.decoders}});
    rc = avcodec_open2(codec_.get(), decoder, only.get());
    check(rc >= 0, ErrorCode::unsupported, "{}: cannot start the decoder {}: {}", name_, decoder->name,
          av::reason(rc));
    frame_ = av::new_frame();
    packet_ = av::new_packet();
    sound_.codec = avcodec_get_name(codec_->codec_id);
  }

  Sound read() {
    while (next_frame()) {
      // The sound goes on after an error, so this is a gap.
      check(trouble_.empty(), ErrorCode::corrupt, "{}: {}", name_, trouble_);
      take_frame();
      av_frame_unref(frame_.get());
    }
    check(!sound_.samples.empty(), ErrorCode::corrupt, "{}: a sound without samples{}{}", name_,
          trouble_.empty() ? "" : ": ", trouble_);
    tell_of_a_cut();
    return std::move(sound_);
  }

 private:
  std::string place() const { return fmt::format("sample {}", sound_.samples.size()); }

  // Returns false at the end.
  bool next_frame() {
    for (;;) {
      const int rc = avcodec_receive_frame(codec_.get(), frame_.get());
      if (rc == AVERROR_EOF) return false;
      if (rc == AVERROR(EAGAIN)) {
        feed();
      } else if (rc < 0) {
        stumble("cannot decode", rc);
      } else if (frame_->decode_error_flags != 0 || frame_->flags & AV_FRAME_FLAG_CORRUPT) {
        stumble("damaged", AVERROR_INVALIDDATA);
        av_frame_unref(frame_.get());
      } else {
        return true;
      }
    }
  }

  // Notes an error. If nothing follows it, the sound was truncated, and the part before it is used.
  void stumble(const char* what, int rc) {
    const std::string text = fmt::format("{} near {}: {}", what, place(), av::reason(rc));
    if (trouble_.empty()) trouble_ = text;
    check(++troubles_ <= kMostTroubles, ErrorCode::corrupt, "{}: {}", name_, trouble_);
  }

  void feed() {
    const int got = av::next_packet(*input_, *stream_, *packet_);
    if (got < 0 && got != AVERROR_EOF) stumble("cannot read", got);
    if (got == AVERROR_EOF || (got < 0 && at_end_of_file())) {
      avcodec_send_packet(codec_.get(), nullptr);
      return;
    }
    if (got < 0) return;
    // In a packet that ends too early, plain samples are valid, but a part of a compressed packet is useless.
    const bool part = (packet_->flags & AV_PKT_FLAG_CORRUPT) != 0, pcm = plain_samples();
    // This cuts off a byte of padding, or the rest of a truncated sample.
    if (pcm) av_shrink_packet(packet_.get(), packet_->size / whole_sample_bytes() * whole_sample_bytes());
    if (packet_->size == 0) return av_packet_unref(packet_.get());
    const int rc = part && !pcm ? AVERROR_INVALIDDATA : avcodec_send_packet(codec_.get(), packet_.get());
    av_packet_unref(packet_.get());
    if (rc < 0) stumble(part ? "cut short" : "cannot decode", rc);
  }

  bool at_end_of_file() const {
    AVIOContext* file = input_->pb;
    return file != nullptr && (avio_feof(file) != 0 || avio_tell(file) >= avio_size(file));
  }
  bool plain_samples() const { return av_get_exact_bits_per_sample(codec_->codec_id) >= 8; }

  int whole_sample_bytes() const {
    return av_get_exact_bits_per_sample(codec_->codec_id) / 8 * std::max(1, codec_->ch_layout.nb_channels);
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
    check(double(before) + frame_->nb_samples <= limits_.seconds_at(rate) * rate, ErrorCode::out_of_memory,
          "{}: longer than {:g} seconds; cut it", name_, limits_.seconds_at(rate));
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

  // Returns the header's seconds, or 0 for none or a placeholder. Other durations are estimates.
  double told_seconds() const {
    const double there = double(sound_.samples.size()) / sound_.rate;
    if (wav_) return wav_->told > 0 ? there * double(wav_->told) / double(wav_->bytes()) : 0;
    if (input_->duration_estimation_method != AVFMT_DURATION_FROM_STREAM) return 0;
    double told = 0;
    if (stream_->duration > 0)
      told = double(stream_->duration) * av_q2d(stream_->time_base);
    else if (input_->nb_streams == 1 && input_->duration > 0)
      told = double(input_->duration) / AV_TIME_BASE;
    const bool placeholder =
        plain_samples() && told * sound_.rate * whole_sample_bytes() >= double(kLeastPlaceholder);
    return placeholder ? 0 : told;
  }

  // A truncated recording can still be used as a voice.
  void tell_of_a_cut() const {
    const double there = double(sound_.samples.size()) / sound_.rate, told = told_seconds();
    // Some headers also count the samples that encoders add around a sound.
    const std::string_view container = input_->iformat->name;
    const bool exact = wav_ || container == "flac" || container == "au" || container == "aiff";
    if (told - there > (exact ? 0.5 / sound_.rate : 0.5))
      warn("{}: cut short: its header says {:.2f} seconds; the {:.2f} that are there are used", name_, told,
           there);
    else if (!trouble_.empty())
      warn("{}: cut short after {:.2f} seconds, which are used: {}", name_, there, trouble_);
    if (wav_ && double(wav_->behind) * there > double(wav_->bytes()))
      warn("{}: its header says {:.2f} seconds; {} bytes after them are not read", name_, there,
           wav_->behind);
  }

  std::string name_;
  SoundLimits limits_;
  std::optional<WavFile> wav_;  // only for a wav file
  std::unique_ptr<av::WavInput> wav_source_;
  av::InputPtr input_;
  AVStream* stream_ = nullptr;
  av::CodecPtr codec_;
  av::FramePtr frame_;
  av::PacketPtr packet_;
  Sound sound_;
  std::string trouble_;  // the first error
  int troubles_ = 0;
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
