#include "media/image_reader.h"

#include <cstring>

#include "base/error.h"
#include "media/files.h"
#include "media/image_header.h"
#include "media/libav.h"
#include "media/png.h"

namespace tachy {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t(512) << 20;

RgbFrame decode_by_ffmpeg(std::span<const uint8_t> file, const ImageHeader& header, const std::string& name) {
  av::quiet();
  const AVCodec* decoder =
      avcodec_find_decoder(header.kind == ImageKind::jpeg ? AV_CODEC_ID_MJPEG : AV_CODEC_ID_WEBP);
  check(decoder != nullptr, ErrorCode::unsupported, "{}: this FFmpeg cannot decode this kind of picture",
        name);
  av::CodecPtr codec = av::new_codec(decoder);
  codec->thread_count = 1;
  // A file may hold more than its header says; decoders round up a little.
  codec->max_pixels = (int64_t{header.width} + 64) * (int64_t{header.height} + 64);
  int rc = avcodec_open2(codec.get(), decoder, nullptr);
  check(rc >= 0, ErrorCode::unsupported, "{}: cannot start the decoder: {}", name, av::reason(rc));

  av::PacketPtr packet = av::new_packet();
  check(av_new_packet(packet.get(), int(file.size())) >= 0, ErrorCode::out_of_memory,
        "{}: no memory for {} bytes", name, file.size());
  std::memcpy(packet->data, file.data(), file.size());
  packet->flags |= AV_PKT_FLAG_KEY;
  av::FramePtr frame = av::new_frame();
  rc = avcodec_send_packet(codec.get(), packet.get());
  if (rc >= 0) rc = avcodec_send_packet(codec.get(), nullptr);
  if (rc >= 0) rc = avcodec_receive_frame(codec.get(), frame.get());
  check(rc >= 0, ErrorCode::corrupt, "{}: cannot decode the picture: {}", name, av::reason(rc));
  check(frame->width == header.width && frame->height == header.height, ErrorCode::corrupt,
        "{}: header says {}x{}, the picture is {}x{}", name, header.width, header.height, frame->width,
        frame->height);
  check(frame->decode_error_flags == 0 && !(frame->flags & AV_FRAME_FLAG_CORRUPT), ErrorCode::corrupt,
        "{}: the picture is damaged: {}", name, av::reason(AVERROR_INVALIDDATA));
  return av::ToRgb().convert(*frame, true);
}

// EXIF orientation: pixel (x, y) of the upright picture comes from where the camera stored it.
RgbFrame turn_upright(RgbFrame in, int orientation) {
  if (orientation <= 1) return in;
  bool swapped = orientation >= 5;
  RgbFrame out(swapped ? in.height : in.width, swapped ? in.width : in.height);
  int last_x = in.width - 1, last_y = in.height - 1;
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      int from_x = 0, from_y = 0;
      switch (orientation) {
        case 2:
          from_x = last_x - x, from_y = y;
          break;
        case 3:
          from_x = last_x - x, from_y = last_y - y;
          break;
        case 4:
          from_x = x, from_y = last_y - y;
          break;
        case 5:
          from_x = y, from_y = x;
          break;
        case 6:
          from_x = y, from_y = last_y - x;
          break;
        case 7:
          from_x = last_x - y, from_y = last_y - x;
          break;
        default:
          from_x = last_x - y, from_y = x;
          break;
      }
      std::memcpy(out.row(y) + 3 * x, in.row(from_y) + 3 * from_x, 3);
    }
  }
  return out;
}

}  // namespace

RgbFrame read_image(const std::filesystem::path& path) {
  std::string name = path.string();
  return decode_image(read_file_bytes(path, kMaxFileBytes), name);
}

RgbFrame decode_image(std::span<const uint8_t> file, const std::string& name, int64_t most_pixels) {
  ImageHeader header = read_image_header(file, name, true);
  require(int64_t{header.width} * header.height <= most_pixels,
          "{}: a picture of {}x{} is too large, at most {} pixels are read here", name, header.width,
          header.height, most_pixels);
  if (header.kind == ImageKind::png) return decode_png(file, name);
  return turn_upright(decode_by_ffmpeg(file, header, name), header.orientation);
}

ImageSize read_image_size(const std::filesystem::path& path) {
  ImageHeader header = read_image_header(read_file_bytes(path, kMaxFileBytes), path.string(), false);
  if (header.orientation >= 5) return {header.height, header.width};
  return {header.width, header.height};
}

}  // namespace tachy
