#include "media/video/libav_output.h"

#include "base/error.h"

namespace tachy::av {
namespace {

// Tells the encoder about its pictures.
void describe(AVCodecContext& codec, const OutputSetup& setup) {
  codec.width = setup.width;
  codec.height = setup.height;
  codec.pix_fmt = setup.format;
  codec.time_base = av_inv_q(setup.rate);
  codec.framerate = setup.rate;
  codec.sample_aspect_ratio = {1, 1};
  codec.thread_count = setup.threads;
  codec.flags |= AV_CODEC_FLAG_BITEXACT;
  if (setup.video_color) {
    codec.color_range = is_rgb(setup.format) ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    codec.colorspace = is_rgb(setup.format) ? AVCOL_SPC_RGB : AVCOL_SPC_BT709;
    codec.color_primaries = AVCOL_PRI_BT709;
    codec.color_trc = AVCOL_TRC_BT709;
    codec.chroma_sample_location = AVCHROMA_LOC_LEFT;
  }
}

}  // namespace

Output::Output(const OutputSetup& setup) : name_(setup.path.string()), cancel_(setup.cancel) {
  if (!setup.streamed) part_.emplace(setup.path);
  const AVCodec* encoder = avcodec_find_encoder_by_name(setup.encoder.c_str());
  check(encoder != nullptr, ErrorCode::unsupported, "{}: this FFmpeg has no encoder {}; {}",
        setup.path.string(), setup.encoder, setup.encoder_hint);
  // A local owner until the constructor cannot throw any more, because before that the destructor would not
  // run.
  struct FormatGuard {
    AVFormatContext* context = nullptr;
    ~FormatGuard() {
      if (context == nullptr) return;
      avio_closep(&context->pb);
      avformat_free_context(context);
    }
  } guard;
  int rc = avformat_alloc_output_context2(&guard.context, nullptr, setup.muxer.c_str(), nullptr);
  check(rc >= 0, ErrorCode::unsupported, "{}: this FFmpeg cannot write {}: {}", setup.path.string(),
        setup.muxer, reason(rc));
  format_ = guard.context;
  // The bytes must be reproducible: no dates, random ids or library versions.
  format_->flags |= AVFMT_FLAG_BITEXACT;
  if (setup.streamed) format_->flags |= AVFMT_FLAG_FLUSH_PACKETS;
  const std::string url = name_ == "-" ? "pipe:1" : "file:" + (part_ ? part_->path() : setup.path).string();
  format_->url = av_strdup(url.c_str());  // to move the index to the front, mp4 reads its own file again
  if (!setup.comment.empty()) av_dict_set(&format_->metadata, "comment", setup.comment.c_str(), 0);

  codec_ = new_codec(encoder);
  describe(*codec_, setup);
  if (format_->oformat->flags & AVFMT_GLOBALHEADER) codec_->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  Dictionary encoder_options(setup.encoder_options);
  rc = avcodec_open2(codec_.get(), encoder, encoder_options.get());
  check(rc >= 0, ErrorCode::invalid_argument, "{}: {} refuses {}x{} at {:.3f} fps: {}", setup.path.string(),
        setup.encoder, setup.width, setup.height, av_q2d(setup.rate), reason(rc));

  stream_ = avformat_new_stream(format_, nullptr);
  check(stream_ != nullptr, ErrorCode::out_of_memory, "media: out of memory in FFmpeg");
  stream_->time_base = codec_->time_base;
  stream_->avg_frame_rate = setup.rate;
  stream_->sample_aspect_ratio = {1, 1};
  rc = avcodec_parameters_from_context(stream_->codecpar, codec_.get());
  check(rc >= 0, ErrorCode::internal, "{}: {}", setup.path.string(), reason(rc));
  picture_ = new_picture(setup.format, setup.width, setup.height);
  packet_ = new_packet();

  if (!setup.sound.empty())
    sound_ = std::make_unique<SoundTrack>(*format_, setup.sound_encoder, setup.path.string());
  rc = avio_open(&format_->pb, url.c_str(), AVIO_FLAG_WRITE);
  if (rc < 0) fail_write("write", rc);
  Dictionary muxer_options(setup.muxer_options);
  rc = avformat_write_header(format_, muxer_options.get());
  if (rc < 0) fail_write("write the header", rc);
  begun_ = true;
  if (sound_) sound_->encode(setup.sound, setup.sound_rate);
  guard.context = nullptr;
}

Output::~Output() {
  if (format_ == nullptr) return;
  if (begun_) av_write_trailer(format_);  // a muxer may hold packets that only this releases
  avio_closep(&format_->pb);
  avformat_free_context(format_);
}

void Output::fail_write(const char* what, int code) {
  fail(ErrorCode::io, "{}: cannot {}: {}", name_, what, reason(code));
}

AVFrame& Output::picture() {
  // The encoder may still hold the last frame's storage.
  int rc = av_frame_make_writable(picture_.get());
  check(rc >= 0, ErrorCode::out_of_memory, "media: no memory for a frame");
  return *picture_;
}

void Output::send(AVFrame& picture, int64_t index) {
  picture.pts = index;
  int rc = avcodec_send_frame(codec_.get(), &picture);
  if (rc < 0) fail_write(fmt::format("encode frame {}", index).c_str(), rc);
  drain();
}

void Output::drain() {
  for (;;) {
    // After the last frame has been sent, dozens of frames may still be in the encoder.
    cancel_.throw_if_set();
    int rc = avcodec_receive_packet(codec_.get(), packet_.get());
    if (rc == AVERROR(EAGAIN) || rc == AVERROR_EOF) return;
    if (rc < 0) fail_write("encode", rc);
    // Every frame lasts equally long. Without this, the last one would have no duration.
    if (packet_->duration == 0) packet_->duration = 1;
    packet_->stream_index = stream_->index;
    av_packet_rescale_ts(packet_.get(), codec_->time_base, stream_->time_base);
    if (sound_) sound_->write();  // before the first picture's packet, so that no picture waits in the muxer
    rc = av_interleaved_write_frame(format_, packet_.get());
    if (rc < 0) fail_write("write", rc);
  }
}

void Output::close() {
  int rc = avcodec_send_frame(codec_.get(), nullptr);
  if (rc < 0) fail_write("finish the encoding", rc);
  drain();
  begun_ = false;
  rc = av_write_trailer(format_);
  if (rc < 0) fail_write("write the index", rc);
  rc = avio_closep(&format_->pb);
  if (rc < 0) fail_write("write", rc);
}

void Output::publish() {
  if (part_) part_->publish();
}

}  // namespace tachy::av
