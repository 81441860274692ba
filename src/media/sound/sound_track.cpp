#include "media/sound/sound_track.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "media/sound/resampler.h"

namespace tachy::av {
namespace {
constexpr int kRate = 48000;         // Opus supports this rate, and so does every player
constexpr int64_t kBitRate = 96000;  // at this rate one channel of either codec sounds like the original
}  // namespace

SoundTrack::SoundTrack(AVFormatContext& file, const std::string& encoder, const std::string& name)
    : file_(file), name_(name) {
  const AVCodec* found = avcodec_find_encoder_by_name(encoder.c_str());
  check(found != nullptr, ErrorCode::unsupported,
        "{}: this FFmpeg has no encoder {}; install one that has it, or write the film without sound", name,
        encoder);
  codec_ = new_codec(found);
  codec_->sample_fmt = encoder == "aac" ? AV_SAMPLE_FMT_FLTP : AV_SAMPLE_FMT_FLT;
  codec_->sample_rate = kRate;
  codec_->time_base = {1, kRate};
  codec_->bit_rate = kBitRate;
  codec_->flags |= AV_CODEC_FLAG_BITEXACT;
  av_channel_layout_default(&codec_->ch_layout, 1);
  if (file.oformat->flags & AVFMT_GLOBALHEADER) codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  int rc = avcodec_open2(codec_.get(), found, nullptr);
  check(rc >= 0, ErrorCode::unsupported, "{}: cannot start the encoder {}: {}", name, encoder, reason(rc));
  stream_ = avformat_new_stream(&file, nullptr);
  check(stream_ != nullptr, ErrorCode::out_of_memory, "media: out of memory in FFmpeg");
  stream_->time_base = codec_->time_base;
  rc = avcodec_parameters_from_context(stream_->codecpar, codec_.get());
  check(rc >= 0, ErrorCode::internal, "{}: {}", name, reason(rc));
  file.max_interleave_delta = 0;  // hold packets for as long as necessary
}

SoundTrack::~SoundTrack() { stop_ = true; }

void SoundTrack::encode(std::span<const float> samples, int rate) {
  std::vector<float> sound = resample(samples, rate, kRate);
  // Where no thread can be had, write() encodes.
  packets_ = std::async(std::launch::async | std::launch::deferred,
                        [this, sound = std::move(sound)]() mutable { return packets_of(std::move(sound)); });
}

std::vector<PacketPtr> SoundTrack::packets_of(std::vector<float> sound) {
  std::vector<PacketPtr> packets;
  const size_t step = codec_->frame_size > 0 ? size_t(codec_->frame_size) : 1024;
  // Players cut off the first frame of AAC. Silence after a short sound makes sure that some of the sound is
  // left.
  sound.resize(std::max(sound.size(), 2 * step));
  for (size_t at = 0; at < sound.size() && !stop_; at += step) {
    FramePtr frame = new_frame();
    frame->nb_samples = int(std::min(step, sound.size() - at));
    frame->format = codec_->sample_fmt;
    frame->sample_rate = kRate;
    av_channel_layout_default(&frame->ch_layout, 1);
    check(av_frame_get_buffer(frame.get(), 0) >= 0, ErrorCode::out_of_memory, "media: no memory for sound");
    std::memcpy(frame->data[0], sound.data() + at, size_t(frame->nb_samples) * sizeof(float));
    frame->pts = int64_t(at);
    const int rc = avcodec_send_frame(codec_.get(), frame.get());
    check(rc >= 0, ErrorCode::io, "{}: cannot encode the sound: {}", name_, reason(rc));
    drain(packets);
  }
  const int rc = avcodec_send_frame(codec_.get(), nullptr);
  check(rc >= 0, ErrorCode::io, "{}: cannot finish the sound: {}", name_, reason(rc));
  drain(packets);
  return packets;
}

void SoundTrack::drain(std::vector<PacketPtr>& packets) {
  for (;;) {
    PacketPtr packet = new_packet();
    const int rc = avcodec_receive_packet(codec_.get(), packet.get());
    if (rc == AVERROR(EAGAIN) || rc == AVERROR_EOF) return;
    check(rc >= 0, ErrorCode::io, "{}: cannot encode the sound: {}", name_, reason(rc));
    packets.push_back(std::move(packet));
  }
}

void SoundTrack::write() {
  if (!packets_.valid()) return;
  for (const PacketPtr& packet : packets_.get()) {
    packet->stream_index = stream_->index;
    av_packet_rescale_ts(packet.get(), codec_->time_base, stream_->time_base);
    const int rc = av_interleaved_write_frame(&file_, packet.get());
    check(rc >= 0, ErrorCode::io, "{}: cannot write: {}", name_, reason(rc));
  }
}

}  // namespace tachy::av
