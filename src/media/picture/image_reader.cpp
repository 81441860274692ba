#include "media/picture/image_reader.h"

#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "media/files.h"
#include "media/picture/first_picture.h"
#include "media/picture/image_header.h"
#include "media/picture/png.h"
#include "media/picture/turn.h"
#include "media/video/libav.h"

namespace tachy {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t(512) << 20;

// A decoder's input: the file, or a file made from it.
struct Still {
  std::span<const uint8_t> file;
  AVCodecID codec = AV_CODEC_ID_NONE;
  int width = 0, height = 0;
};

RgbFrame decode_by_ffmpeg(const Still& still, const std::string& name) {
  av::quiet();
  const AVCodec* decoder = avcodec_find_decoder(still.codec);
  check(decoder != nullptr, ErrorCode::unsupported, "{}: this FFmpeg cannot decode this kind of picture",
        name);
  av::CodecPtr codec = av::new_codec(decoder);
  codec->thread_count = 1;
  // A file may have more pixels than its header says; decoders round up a little.
  codec->max_pixels = (int64_t{still.width} + 64) * (int64_t{still.height} + 64);
  int rc = avcodec_open2(codec.get(), decoder, nullptr);
  check(rc >= 0, ErrorCode::unsupported, "{}: cannot start the decoder: {}", name, av::reason(rc));

  av::PacketPtr packet = av::new_packet();
  check(av_new_packet(packet.get(), int(still.file.size())) >= 0, ErrorCode::out_of_memory,
        "{}: no memory for {} bytes", name, still.file.size());
  std::memcpy(packet->data, still.file.data(), still.file.size());
  packet->flags |= AV_PKT_FLAG_KEY;
  av::FramePtr frame = av::new_frame();
  rc = avcodec_send_packet(codec.get(), packet.get());
  if (rc >= 0) rc = avcodec_send_packet(codec.get(), nullptr);
  if (rc >= 0) rc = avcodec_receive_frame(codec.get(), frame.get());
  check(rc >= 0, ErrorCode::corrupt, "{}: cannot decode the picture: {}", name, av::reason(rc));
  check(frame->width == still.width && frame->height == still.height, ErrorCode::corrupt,
        "{}: header says {}x{}, the picture is {}x{}", name, still.width, still.height, frame->width,
        frame->height);
  check(frame->decode_error_flags == 0 && !(frame->flags & AV_FRAME_FLAG_CORRUPT), ErrorCode::corrupt,
        "{}: the picture is damaged: {}", name, av::reason(AVERROR_INVALIDDATA));
  return av::ToRgb().convert(*frame, true);
}

RgbFrame decode_first(const FirstPicture& first, AVCodecID codec, const ImageHeader& header,
                      const std::string& name) {
  RgbFrame picture = decode_by_ffmpeg({first.file, codec, first.width, first.height}, name);
  if (first.width == header.width && first.height == header.height) return picture;
  RgbFrame out(header.width, header.height);
  for (int y = 0; y < picture.height; ++y)
    std::memcpy(out.row(first.top + y) + 3 * int64_t{first.left}, picture.row(y), size_t(picture.width) * 3);
  return out;
}

RgbFrame decode(std::span<const uint8_t> file, const ImageHeader& header, const std::string& name) {
  switch (header.kind) {
    case ImageKind::png:
      return decode_png(file, name);
    case ImageKind::jpeg:
      return decode_by_ffmpeg({file, AV_CODEC_ID_MJPEG, header.width, header.height}, name);
    case ImageKind::gif:
      return decode_first(first_of_gif(file, name), AV_CODEC_ID_GIF, header, name);
    case ImageKind::webp:
      if (header.animated) return decode_first(first_of_webp(file, name), AV_CODEC_ID_WEBP, header, name);
      return decode_by_ffmpeg({file, AV_CODEC_ID_WEBP, header.width, header.height}, name);
  }
  fail(ErrorCode::internal, "{}: unknown kind of picture", name);
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
  if (header.animated)
    warn("{}: this {} is animated; its first picture is used", name, kind_name(header.kind));
  return turn_upright(decode(file, header, name), header.orientation);
}

ImageSize read_image_size(const std::filesystem::path& path) {
  ImageHeader header = read_image_header(read_file_bytes(path, kMaxFileBytes), path.string(), false);
  if (turns_sideways(header.orientation)) return {header.height, header.width};
  return {header.width, header.height};
}

}  // namespace tachy
