#include "media/video/video_input.h"

#include <cstring>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "media/file_kind.h"
#include "media/files.h"
#include "media/picture/turn.h"
#include "media/video/matroska_pose.h"

namespace tachy {
namespace av {

const Allowed kVideos = {
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,gif",
    "h264,hevc,vp8,vp9,libvpx,libvpx-vp9,av1,libdav1d,libaom-av1,mpeg4,mjpeg,png,gif,prores,ffv1",
    "a video (mp4, mov, mkv, webm, avi or gif)", Wanted::video};

InputPtr open_input(const std::filesystem::path& path, const Allowed& allowed, AVIOContext* source) {
  check_readable_file(path);
  AVFormatContext* context = nullptr;
  if (source != nullptr) {
    context = avformat_alloc_context();
    check(context != nullptr, ErrorCode::out_of_memory, "media: out of memory in FFmpeg");
    context->pb = source;  // FFmpeg does not close a context that it did not open
  }
  Dictionary options({{"protocol_whitelist", "file"},
                      {"format_whitelist", allowed.containers},
                      {"codec_whitelist", allowed.decoders},
                      {"max_streams", "16"}});
  int rc = avformat_open_input(&context, ("file:" + path.string()).c_str(), nullptr, options.get());
  if (rc == AVERROR(EACCES) || rc == AVERROR(EIO) || rc == AVERROR(EMFILE))
    fail(ErrorCode::io, "{}: cannot read: {}", path.string(), reason(rc));
  if (rc < 0) {
    const std::string kind = file_kind(path, allowed.wanted);
    check(kind == kUnknownKind, ErrorCode::corrupt, "{}: expected {}, got {}", path.string(), allowed.what,
          kind);
    const std::string why = reason(rc);
    // The index of mp4, m4a and mov is at the end, unless they were made for streaming.
    char begin[8] = {};
    std::ifstream(path, std::ios::binary).read(begin, sizeof begin);
    const bool unfinished =
        std::memcmp(begin + 4, "ftyp", 4) == 0 && why.find("moov atom not found") != why.npos;
    check(!unfinished, ErrorCode::corrupt,
          "{}: cut short: it ends before its index (moov), without which nothing of it can be read",
          path.string());
    fail(ErrorCode::corrupt, "{}: expected {}; this file is of another kind, or it is damaged: {}",
         path.string(), allowed.what, why);
  }
  return InputPtr(context);
}

void find_streams(AVFormatContext& input, const std::filesystem::path& path, int64_t max_pixels) {
  // The analysis of streams also decodes, so it gets the same limits.
  std::vector<AVDictionary*> options(input.nb_streams, nullptr);
  for (AVDictionary*& o : options) {
    av_dict_set_int(&o, "max_pixels", max_pixels, 0);
    av_dict_set(&o, "threads", "1", 0);
  }
  const int rc = avformat_find_stream_info(&input, options.empty() ? nullptr : options.data());
  for (AVDictionary*& o : options) av_dict_free(&o);
  check(rc >= 0, ErrorCode::corrupt, "{}: cannot find the streams: {}", path.string(), reason(rc));
}

int next_packet(AVFormatContext& input, const AVStream& stream, AVPacket& packet) {
  for (;;) {
    const int rc = av_read_frame(&input, &packet);
    if (rc < 0) return rc;
    if (packet.stream_index == stream.index) return 0;
    av_packet_unref(&packet);
  }
}

int orientation_in(std::span<const uint8_t> matrix) {
  int32_t numbers[9] = {};
  if (matrix.size() < sizeof numbers) return 1;
  std::memcpy(numbers, matrix.data(), sizeof numbers);
  return orientation_of_matrix(numbers);
}

int orientation_of(const AVFormatContext& input, const AVStream& stream, const std::filesystem::path& path) {
  const uint8_t* data = nullptr;
  size_t bytes = 0;
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
  const AVCodecParameters& about = *stream.codecpar;
  if (const AVPacketSideData* found =
          av_packet_side_data_get(about.coded_side_data, about.nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX))
    data = found->data, bytes = found->size;
#else
  data = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &bytes);
#endif
  if (data != nullptr) return orientation_in({data, bytes});
  // FFmpeg 5.1 ignores this part of an mkv.
  if (!std::string_view(input.iformat->name).starts_with("matroska")) return 1;
  int before = 0;
  for (int i = 0; i < stream.index; ++i)
    before += input.streams[i]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
  return matroska_orientation(path, before);
}

std::string comment_of(const AVFormatContext& input) {
  const AVDictionaryEntry* entry = av_dict_get(input.metadata, "comment", nullptr, 0);
  return entry != nullptr ? entry->value : "";
}

}  // namespace av

}  // namespace tachy
