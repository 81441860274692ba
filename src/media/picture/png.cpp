#include "media/picture/png.h"

#include <png.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "media/byte_reader.h"

namespace tachy {
namespace {

constexpr char kKeyword[] = "Comment";
constexpr size_t kMaxTextBytes = 16 << 20;

// libpng uses longjmp when something is wrong. So all code between setjmp and libpng's calls is in functions
// whose variables need no destructor; the callers own what these functions fill.
struct PngFailure {
  char text[256] = "";
};

[[noreturn]] void on_error(png_structp png, const char* text) {
  auto* failure = static_cast<PngFailure*>(png_get_error_ptr(png));
  std::strncpy(failure->text, text, sizeof failure->text - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, const char*) {}  // they are about chunks that are not used here

// A reader and its source.
struct PngReader {
  PngFailure failure;
  std::span<const uint8_t> rest;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &failure, on_error, on_warning);
  png_infop info = png ? png_create_info_struct(png) : nullptr;

  explicit PngReader(std::span<const uint8_t> file) : rest(file) {
    check(info != nullptr, ErrorCode::out_of_memory, "png: no memory for a reader");
  }
  PngReader(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

// libpng allocates room for a text chunk before it checks whether the file is that long: 2 GB if the chunk
// says so.
void check_lengths(std::span<const uint8_t> file, std::string_view name) {
  const Bytes in(file, name, true);
  for (size_t at = 8; in.has(at, 8);) {
    const size_t bytes = in.get(at, 4);
    check(in.has(at + 8, bytes) || starts_with(file, at + 4, "IDAT"), ErrorCode::corrupt,
          "{}: damaged PNG: a chunk at byte {} claims {} bytes, and the file ends before its IEND chunk "
          "(truncated?)",
          name, at, bytes);
    at += 12 + bytes;
  }
}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader->rest.size() < count) png_error(png, "the file ends before its IEND chunk (truncated?)");
  std::memcpy(to, reader->rest.data(), count);
  reader->rest = reader->rest.subspan(count);
}

void set_up(PngReader& r) {
  png_set_read_fn(r.png, &r, read_bytes);
  png_set_user_limits(r.png, kMaxImageSide, kMaxImageSide);
  png_set_chunk_malloc_max(r.png, kMaxTextBytes);
  png_set_crc_action(r.png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
}

bool read_header(PngReader& r) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  set_up(r);
  png_read_info(r.png, r.info);
  const int color = png_get_color_type(r.png, r.info);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(r.png);
  if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(r.png);
  png_set_strip_16(r.png);
  png_set_strip_alpha(r.png);
  if ((color & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(r.png);
  png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
  return true;
}

bool read_pixels(PngReader& r, png_bytepp rows) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  png_read_image(r.png, rows);
  png_read_end(r.png, nullptr);
  return true;
}

// Reads the chunks before the pixels, after which the size is known.
bool read_front(PngReader& r) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  set_up(r);
  png_read_info(r.png, r.info);
  if (int64_t{png_get_image_width(r.png, r.info)} * png_get_image_height(r.png, r.info) > kMaxImagePixels)
    png_error(r.png, "the picture is larger than the limit");
  return true;
}

// Reads the chunks after the pixels. All pixels go into the same row.
bool read_back(PngReader& r, png_bytep row) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  const int passes = png_set_interlace_handling(r.png);
  const png_uint_32 height = png_get_image_height(r.png, r.info);
  for (int pass = 0; pass < passes; ++pass)
    for (png_uint_32 y = 0; y < height; ++y) png_read_row(r.png, row, nullptr);
  png_read_end(r.png, r.info);
  return true;
}

struct Writer {
  PngFailure failure;
  std::vector<uint8_t> file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &failure, on_error, on_warning);
  png_infop info = png ? png_create_info_struct(png) : nullptr;

  Writer() { check(info != nullptr, ErrorCode::out_of_memory, "png: no memory for a writer"); }
  Writer(const Writer&) = delete;
  ~Writer() { png_destroy_write_struct(&png, &info); }
};

void write_bytes(png_structp png, png_bytep data, size_t count) {
  auto& file = static_cast<Writer*>(png_get_io_ptr(png))->file;
  try {
    file.insert(file.end(), data, data + count);
    return;
  } catch (const std::bad_alloc&) {
  }
  png_error(png, "no memory for the file");
}

bool write(Writer& w, RgbView image, const png_text* text, bool quick) {
  if (setjmp(png_jmpbuf(w.png))) return false;
  png_set_write_fn(w.png, &w, write_bytes, nullptr);
  png_set_user_limits(w.png, kMaxImageSide, kMaxImageSide);
  png_set_compression_level(w.png, quick ? 1 : 6);
  png_set_filter(w.png, PNG_FILTER_TYPE_BASE, quick ? PNG_FILTER_PAETH : PNG_ALL_FILTERS);
  png_set_IHDR(w.png, w.info, png_uint_32(image.width), png_uint_32(image.height), 8, PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (text) png_set_text(w.png, w.info, text, 1);
  png_write_info(w.png, w.info);
  for (int y = 0; y < image.height; ++y) png_write_row(w.png, image.row(y));
  png_write_end(w.png, nullptr);
  return true;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string utf8_of_latin1(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += char(0xc0 | byte >> 6);
      out += char(0x80 | (byte & 0x3f));
    }
  }
  return out;
}

std::string first_comment(const PngReader& r) {
  png_textp texts = nullptr;
  const int count = png_get_text(r.png, r.info, &texts, nullptr);
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(texts[i].key, kKeyword) != 0) continue;
    const bool utf8 = texts[i].compression >= PNG_ITXT_COMPRESSION_NONE;
    const std::string_view text(texts[i].text, utf8 ? texts[i].itxt_length : texts[i].text_length);
    if (!text.empty()) return utf8 ? std::string(text) : utf8_of_latin1(text);
  }
  return {};
}

}  // namespace

std::vector<uint8_t> encode_png(RgbView image, const std::string& comment, PngEffort effort) {
  Writer writer;
  std::string key = kKeyword, body = comment;
  png_text text{};
  text.compression = is_ascii(comment) ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
  text.key = key.data();
  text.text = body.data();
  (text.compression == PNG_TEXT_COMPRESSION_NONE ? text.text_length : text.itxt_length) = body.size();
  check(write(writer, image, comment.empty() ? nullptr : &text, effort == PngEffort::quick),
        ErrorCode::internal, "png: cannot encode {}x{}: {}", image.width, image.height, writer.failure.text);
  return std::move(writer.file);
}

RgbFrame decode_png(std::span<const uint8_t> file, std::string_view name) {
  check_lengths(file, name);
  PngReader reader(file);
  check(read_header(reader), ErrorCode::corrupt, "{}: damaged PNG: {}", name, reader.failure.text);
  RgbFrame out(int(png_get_image_width(reader.png, reader.info)),
               int(png_get_image_height(reader.png, reader.info)));
  check(png_get_rowbytes(reader.png, reader.info) == size_t(out.width) * 3, ErrorCode::internal,
        "{}: PNG rows of {} bytes, expected {}", name, png_get_rowbytes(reader.png, reader.info),
        size_t(out.width) * 3);
  std::vector<png_bytep> rows(size_t(out.height));
  for (int y = 0; y < out.height; ++y) rows[size_t(y)] = out.row(y);
  check(read_pixels(reader, rows.data()), ErrorCode::corrupt, "{}: damaged PNG: {}", name,
        reader.failure.text);
  return out;
}

std::string png_comment(std::span<const uint8_t> file, std::string_view name) {
  check_lengths(file, name);
  PngReader reader(file);
  check(read_front(reader), ErrorCode::corrupt, "{}: damaged PNG: {}", name, reader.failure.text);
  std::string comment = first_comment(reader);
  if (!comment.empty()) return comment;
  std::vector<png_byte> row(png_get_rowbytes(reader.png, reader.info));
  check(read_back(reader, row.data()), ErrorCode::corrupt, "{}: damaged PNG: {}", name, reader.failure.text);
  return first_comment(reader);
}

}  // namespace tachy
