#include "media/video/packet_file.h"

#include "base/error.h"
#include "media/video/video_writer.h"

namespace tachy::av {

PacketFile::PacketFile(const std::filesystem::path& path, const std::string& comment, CancelFlag cancel)
    : part_(path), cancel_(cancel) {
  const VideoFormat format = video_format(path);
  mp4_ = format == VideoFormat::mp4;
  require(mp4_ || format == VideoFormat::webm, "{}: expected a name ending in .mp4 or .webm", path.string());
  const int rc = avformat_alloc_output_context2(&format_, nullptr, mp4_ ? "mp4" : "webm", nullptr);
  check(rc >= 0, ErrorCode::unsupported, "{}: this FFmpeg cannot write it: {}", path.string(), reason(rc));
  format_->flags |= AVFMT_FLAG_BITEXACT;
  // To move the index to the front, mp4 reads its own file again.
  format_->url = av_strdup(("file:" + part_.path().string()).c_str());
  if (!comment.empty()) av_dict_set(&format_->metadata, "comment", comment.c_str(), 0);
}

PacketFile::~PacketFile() {
  if (begun_) av_write_trailer(format_);  // a muxer may hold packets that only this releases
  avio_closep(&format_->pb);
  avformat_free_context(format_);
}

void PacketFile::fail_write(const char* what, int code) const {
  fail(ErrorCode::io, "{}: cannot {}: {}", part_.final_path().string(), what, reason(code));
}

int PacketFile::add_like(const AVStream& stream) {
  AVStream* const added = avformat_new_stream(format_, nullptr);
  check(added != nullptr && avcodec_parameters_copy(added->codecpar, stream.codecpar) >= 0,
        ErrorCode::out_of_memory, "media: out of memory in FFmpeg");
  added->codecpar->codec_tag = 0;  // the containers may have different names for a codec
  added->time_base = stream.time_base;
  added->avg_frame_rate = stream.avg_frame_rate;
  added->sample_aspect_ratio = stream.sample_aspect_ratio;
  return added->index;
}

void PacketFile::begin(std::span<const float> sound, int sound_rate) {
  if (!sound.empty())
    sound_ = std::make_unique<SoundTrack>(*format_, mp4_ ? "aac" : "libopus", part_.final_path().string());
  int rc = avio_open(&format_->pb, format_->url, AVIO_FLAG_WRITE);
  if (rc < 0) fail_write("write", rc);
  Dictionary options(mp4_ ? Options{{"movflags", "+faststart"}} : Options{{"cues_to_front", "1"}});
  rc = avformat_write_header(format_, options.get());
  if (rc < 0) fail_write("write the header", rc);
  begun_ = true;
  if (sound_) sound_->encode(sound, sound_rate), sound_->write();
}

void PacketFile::write(AVPacket& packet, AVRational time_base, int stream) {
  cancel_.throw_if_set();
  packet.stream_index = stream;
  packet.pos = -1;
  av_packet_rescale_ts(&packet, time_base, format_->streams[stream]->time_base);
  const int rc = av_interleaved_write_frame(format_, &packet);
  if (rc < 0) fail_write("write", rc);
}

void PacketFile::finish() {
  cancel_.throw_if_set();
  begun_ = false;
  int rc = av_write_trailer(format_);
  if (rc < 0) fail_write("write the index", rc);
  rc = avio_closep(&format_->pb);
  if (rc < 0) fail_write("write", rc);
  part_.publish();
  sync_folder(folder_of(part_.final_path()));
}

}  // namespace tachy::av
