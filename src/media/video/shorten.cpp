#include "media/video/shorten.h"

#include <map>

#include "base/error.h"
#include "media/video/packet_file.h"
#include "media/video/video_input.h"

namespace tachy {

void shorten_video(const std::filesystem::path& path, double seconds, const std::string& comment) {
  av::quiet();
  const av::InputPtr input = av::open_input(path);
  av::find_streams(*input, path);
  av::PacketFile out(path, comment, {});
  std::map<int, int> streams;
  for (unsigned i = 0; i < input->nb_streams; ++i) {
    const AVMediaType type = input->streams[i]->codecpar->codec_type;
    if (type == AVMEDIA_TYPE_VIDEO || type == AVMEDIA_TYPE_AUDIO)
      streams[static_cast<int>(i)] = out.add_like(*input->streams[i]);
  }
  out.begin();
  const av::PacketPtr packet = av::new_packet();
  for (;;) {
    const int rc = av_read_frame(input.get(), packet.get());
    if (rc == AVERROR_EOF) break;
    check(rc >= 0, ErrorCode::corrupt, "{}: cannot read: {}", path.string(), av::reason(rc));
    const auto stream = streams.find(packet->stream_index);
    const AVRational base = input->streams[packet->stream_index]->time_base;
    // Half a microsecond is less than any unit of time here, and more than the error of the product.
    const bool late = static_cast<double>(packet->pts) * av_q2d(base) >= seconds - 5e-7;
    if (stream != streams.end() && !late) out.write(*packet, base, stream->second);
    av_packet_unref(packet.get());
  }
  out.finish();
}

}  // namespace tachy
