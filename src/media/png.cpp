#include "media/png.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

extern "C" {
#include <libavutil/crc.h>
}

namespace tachy {
namespace {

constexpr uint8_t kSignature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr size_t kAfterIhdr = 8 + 12 + 13;
constexpr std::string_view kKeyword = "Comment";

uint32_t read_u32(const uint8_t* p) {
  return uint32_t(p[0]) << 24 | uint32_t(p[1]) << 16 | uint32_t(p[2]) << 8 | uint32_t(p[3]);
}

void put_u32(uint8_t* p, uint32_t v) {
  for (int i = 0; i < 4; ++i) p[i] = uint8_t(v >> (24 - 8 * i));
}

uint32_t crc32(const uint8_t* data, size_t size) {
  return ~av_crc(av_crc_get_table(AV_CRC_32_IEEE_LE), 0xffffffffu, data, size);
}

std::vector<uint8_t> comment_chunk(const std::string& text) {
  // tEXt is Latin-1 and known to every reader; iTXt holds UTF-8.
  bool ascii =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  std::string body(ascii ? "tEXt" : "iTXt");
  body.append(kKeyword).push_back('\0');
  if (!ascii) body.append(4, '\0');  // not compressed, method 0, no language, no translated keyword
  body += text;
  std::vector<uint8_t> chunk(body.size() + 8);
  put_u32(chunk.data(), uint32_t(body.size() - 4));
  std::memcpy(chunk.data() + 4, body.data(), body.size());
  put_u32(chunk.data() + 4 + body.size(), crc32(chunk.data() + 4, body.size()));
  return chunk;
}

}  // namespace

PngEncoder::PngEncoder(int width, int height) {
  av::quiet();
  const AVCodec* encoder = avcodec_find_encoder(AV_CODEC_ID_PNG);
  check(encoder != nullptr, ErrorCode::unsupported,
        "png: this FFmpeg has no PNG encoder (it was built without zlib)");
  codec_ = av::new_codec(encoder);
  codec_->width = width;
  codec_->height = height;
  codec_->pix_fmt = AV_PIX_FMT_RGB24;
  codec_->time_base = {1, 25};
  codec_->thread_count = 1;
  codec_->flags |= AV_CODEC_FLAG_BITEXACT;
  av::Dictionary options({{"pred", "mixed"}, {"compression_level", "6"}});
  int rc = avcodec_open2(codec_.get(), encoder, options.get());
  check(rc >= 0, ErrorCode::invalid_argument, "png: cannot encode {}x{}: {}", width, height, av::reason(rc));
  picture_ = av::new_picture(AV_PIX_FMT_RGB24, width, height);
  packet_ = av::new_packet();
}

std::vector<uint8_t> PngEncoder::encode(RgbView image, const std::string& comment) {
  require(image.width == codec_->width && image.height == codec_->height, "png: expected {}x{}, got {}x{}",
          codec_->width, codec_->height, image.width, image.height);
  check(av_frame_make_writable(picture_.get()) >= 0, ErrorCode::out_of_memory,
        "png: no memory for a picture");
  av::copy_rgb(image, *picture_);
  int rc = avcodec_send_frame(codec_.get(), picture_.get());
  if (rc >= 0) rc = avcodec_receive_packet(codec_.get(), packet_.get());
  check(rc >= 0 && size_t(packet_->size) > kAfterIhdr, ErrorCode::internal, "png: cannot encode: {}",
        av::reason(rc));
  std::vector<uint8_t> file(packet_->data, packet_->data + packet_->size);
  av_packet_unref(packet_.get());
  if (!comment.empty()) {
    std::vector<uint8_t> chunk = comment_chunk(comment);
    file.insert(file.begin() + kAfterIhdr, chunk.begin(), chunk.end());
  }
  return file;
}

void for_each_png_chunk(std::span<const uint8_t> file, std::string_view name,
                        const std::function<void(std::string_view, std::span<const uint8_t>)>& visit) {
  check(file.size() >= 8 && std::memcmp(file.data(), kSignature, 8) == 0, ErrorCode::corrupt,
        "{}: no PNG signature", name);
  size_t at = 8;
  for (;;) {
    check(file.size() - at >= 12, ErrorCode::corrupt,
          "{}: PNG ends at byte {} before its IEND chunk (truncated?)", name, file.size());
    size_t length = read_u32(&file[at]);
    check(length <= file.size() - at - 12, ErrorCode::corrupt,
          "{}: PNG chunk at byte {} claims {} bytes, the file has {} left (truncated?)", name, at, length,
          file.size() - at - 12);
    std::string_view type(reinterpret_cast<const char*>(&file[at + 4]), 4);
    uint32_t stored = read_u32(&file[at + 8 + length]), computed = crc32(&file[at + 4], length + 4);
    check(stored == computed, ErrorCode::corrupt, "{}: PNG chunk at byte {}: expected CRC {:08x}, got {:08x}",
          name, at, stored, computed);
    check((type == "IHDR") == (at == 8), ErrorCode::corrupt,
          "{}: PNG chunk IHDR expected first and only there, byte {}", name, at);
    visit(type, file.subspan(at + 8, length));
    if (type == "IEND") return;
    at += 12 + length;
  }
}

namespace {

// Bytes of the filtered rows, from IHDR: one filter byte and the packed samples each; seven smaller pictures
// when interlaced (Adam7).
uint64_t raw_bytes(std::span<const uint8_t> ihdr, std::string_view name) {
  check(ihdr.size() == 13, ErrorCode::corrupt, "{}: PNG header of {} bytes, expected 13", name, ihdr.size());
  constexpr int kSamples[7] = {1, 0, 3, 1, 2, 0, 4};  // by colour type
  int color = ihdr[9], depth = ihdr[8], interlace = ihdr[12];
  check(color <= 6 && kSamples[color] != 0 && depth >= 1 && depth <= 16 && interlace <= 1, ErrorCode::corrupt,
        "{}: PNG of unknown kind (colour type {}, depth {}, interlace {})", name, color, depth, interlace);
  uint64_t width = read_u32(&ihdr[0]), height = read_u32(&ihdr[4]),
           bits = uint64_t(depth) * uint64_t(kSamples[color]);
  auto pass = [&](uint64_t x0, uint64_t y0, uint64_t dx, uint64_t dy) -> uint64_t {
    uint64_t w = width > x0 ? (width - x0 + dx - 1) / dx : 0,
             h = height > y0 ? (height - y0 + dy - 1) / dy : 0;
    return w == 0 ? 0 : h * (1 + (w * bits + 7) / 8);
  };
  if (interlace == 0) return pass(0, 0, 1, 1);
  return pass(0, 0, 8, 8) + pass(4, 0, 8, 8) + pass(0, 4, 4, 8) + pass(2, 0, 4, 4) + pass(0, 2, 2, 4) +
         pass(1, 0, 2, 2) + pass(0, 1, 1, 2);
}

}  // namespace

void check_png_whole(std::span<const uint8_t> file, std::string_view name) {
  struct Inflate {
    z_stream stream{};
    Inflate() { check(inflateInit(&stream) == Z_OK, ErrorCode::out_of_memory, "png: cannot start zlib"); }
    ~Inflate() { inflateEnd(&stream); }
  } zlib;
  std::vector<uint8_t> sink(1 << 16);
  uint64_t want = 0, got = 0;
  int rc = Z_OK;
  for_each_png_chunk(file, name, [&](std::string_view type, std::span<const uint8_t> data) {
    if (type == "IHDR") want = raw_bytes(data, name);
    if (type != "IDAT") return;
    zlib.stream.next_in = const_cast<uint8_t*>(data.data());
    zlib.stream.avail_in = uint32_t(data.size());
    // Stops at what the header announced: a bomb is not followed.
    while (rc == Z_OK && got < want) {
      zlib.stream.next_out = sink.data();
      zlib.stream.avail_out = uint32_t(sink.size());
      rc = inflate(&zlib.stream, Z_NO_FLUSH);
      got += sink.size() - zlib.stream.avail_out;
      if (zlib.stream.avail_in == 0 && zlib.stream.avail_out != 0) break;
    }
    if (rc == Z_BUF_ERROR) rc = Z_OK;  // only means: more input, please
  });
  check(rc == Z_OK || rc == Z_STREAM_END, ErrorCode::corrupt, "{}: PNG pixels cannot be decompressed: {}",
        name, zlib.stream.msg != nullptr ? zlib.stream.msg : zError(rc));
  check(got >= want, ErrorCode::corrupt, "{}: PNG holds {} of {} bytes of pixels", name, got, want);
}

std::string png_comment(std::string_view type, std::span<const uint8_t> data) {
  if (type != "tEXt" && type != "iTXt") return {};
  std::string_view body(reinterpret_cast<const char*>(data.data()), data.size());
  if (body.substr(0, kKeyword.size()) != kKeyword) return {};
  body.remove_prefix(kKeyword.size());
  if (body.empty() || body[0] != '\0') return {};
  body.remove_prefix(1);
  if (type == "iTXt") {
    if (body.size() < 2 || body[0] != 0) return {};  // compressed: not written by us
    body.remove_prefix(2);
    for (int skip = 0; skip < 2; ++skip) {
      size_t end = body.find('\0');
      if (end == body.npos) return {};
      body.remove_prefix(end + 1);
    }
    return std::string(body);
  }
  std::string utf8;
  for (char c : body) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      utf8 += c;
    } else {
      utf8 += char(0xc0 | byte >> 6);
      utf8 += char(0x80 | (byte & 0x3f));
    }
  }
  return utf8;
}

}  // namespace tachy
