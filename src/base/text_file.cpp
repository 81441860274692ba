#include "base/text_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/os/file.h"
#include "base/utf8.h"

namespace tachy {
namespace {

constexpr std::string_view kMark = "\xEF\xBB\xBF";  // the byte order mark in UTF-8
constexpr std::string_view kUtf16Little("\xFF\xFE", 2), kUtf16Big("\xFE\xFF", 2);
constexpr std::string_view kUtf32Little("\xFF\xFE\0\0", 4), kUtf32Big("\0\0\xFE\xFF", 4);

[[noreturn]] void fail_reading(const std::filesystem::path& path, std::error_code error) {
  const bool missing = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  fail(missing ? ErrorCode::not_found : ErrorCode::io, "cannot read {}: {}", path.string(),
       missing                              ? "no such file"
       : error == std::errc::is_a_directory ? "it is a folder"
                                            : error.message());
}

// The line that contains a byte and where that line begins, in a file with any of the three line ends.
struct RawPlace {
  size_t line = 1, begin = 0;
};
RawPlace raw_place(std::string_view bytes, size_t at) {
  RawPlace place;
  for (size_t i = 0; i < at; ++i) {
    const bool pair = bytes[i] == '\r' && i + 1 < bytes.size() && bytes[i + 1] == '\n';
    if (pair || (bytes[i] != '\r' && bytes[i] != '\n')) continue;
    ++place.line, place.begin = i + 1;
  }
  return place;
}

// Guesses the encoding of bytes that include zeros: wider encodings put zeros between the bytes of ASCII
// characters.
const char* wider_encoding(std::string_view bytes) {
  const std::string_view some = bytes.substr(0, 4096);
  size_t zeros[4] = {};
  for (size_t i = 0; i < some.size(); ++i) zeros[i % 4] += some[i] == 0;
  const size_t most = some.size() / 4 + 1, many = most / 2;
  const auto full = [&](size_t i) { return many > 0 && zeros[i] >= many; };
  if ((full(1) && full(2) && full(3)) || (full(0) && full(1) && full(2))) return "UTF-32";
  if ((full(1) && full(3)) || (full(0) && full(2))) return "UTF-16 without a byte order mark";
  return nullptr;
}

[[noreturn]] void refuse(std::string_view bytes, size_t at, std::string_view name) {
  const auto [line, begin] = raw_place(bytes, at);
  const size_t byte = at - begin + 1;
  if (bytes[at] != 0)
    fail(ErrorCode::corrupt, "{}: not UTF-8 at line {}, byte {} (0x{:02X}); save it as UTF-8", name, line,
         byte, static_cast<unsigned>(static_cast<unsigned char>(bytes[at])));
  const char* const encoding = wider_encoding(bytes);
  fail(ErrorCode::corrupt, "{}: not text at line {}, byte {}: a zero byte{}; save it as UTF-8", name, line,
       byte, encoding ? fmt::format(" (the file seems to be {})", encoding) : std::string());
}

// Decodes UTF-16 after its byte order mark.
std::string from_utf16(std::string_view bytes, bool big, std::string_view name) {
  std::string out;
  out.reserve(bytes.size());
  const auto unit = [&](size_t i) {
    const auto a = static_cast<unsigned char>(bytes[i]), b = static_cast<unsigned char>(bytes[i + 1]);
    return static_cast<char32_t>(big ? a << 8 | b : b << 8 | a);
  };
  const auto check_here = [&](bool ok, const char* what) {
    check(ok, ErrorCode::corrupt, "{}: not UTF-16 at line {}: {}; save it as UTF-8", name,
          raw_place(out, out.size()).line, what);
  };
  for (size_t i = 0; i < bytes.size(); i += 2) {
    check_here(i + 1 < bytes.size(), "the last character has one byte of two");
    char32_t c = unit(i);
    if (c >= 0xD800 && c <= 0xDFFF) {
      const bool pair = c <= 0xDBFF && i + 3 < bytes.size() && (unit(i + 2) & 0xFC00) == 0xDC00;
      if (!pair) check_here(false, "half a character (a surrogate without its other one)");
      c = 0x10000 + ((c & 0x3FF) << 10 | (unit(i + 2) & 0x3FF));
      i += 2;
    }
    append_utf8(out, c);
  }
  return out;
}

std::string with_plain_lines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if ((out.empty() || out.back() == '\n') && text.substr(i).starts_with(kMark)) {
      i += kMark.size();
      continue;
    }
    if (text[i] == '\r') {
      i += i + 1 < text.size() && text[i + 1] == '\n' ? 2 : 1;
      out += '\n';
    } else {
      out += text[i++];
    }
  }
  return out;
}

}  // namespace

std::string decode_text(std::string_view bytes, std::string_view name) {
  for (const std::string_view mark : {kUtf32Little, kUtf32Big})
    check(!bytes.starts_with(mark), ErrorCode::corrupt,
          "{}: not UTF-8 at line 1, byte 1: it begins with the byte order mark of UTF-32; save it as UTF-8",
          name);
  std::string decoded;
  if (bytes.starts_with(kUtf16Little) || bytes.starts_with(kUtf16Big)) {
    decoded = from_utf16(bytes.substr(2), bytes.starts_with(kUtf16Big), name);
    bytes = decoded;
  }
  const size_t bad = std::min(find_invalid_utf8(bytes), bytes.find('\0'));
  if (bad != std::string_view::npos) refuse(bytes, bad, name);
  return with_plain_lines(bytes);
}

std::string read_text_file(const std::filesystem::path& path, uint64_t max_bytes) {
  std::error_code error;
  os::File file(path, os::OpenAs::input, error);
  if (error) fail_reading(path, error);
  std::string bytes;
  char block[1 << 16];
  for (;;) {
    const size_t n = file.read(block, sizeof block, error);
    if (error) fail_reading(path, error);
    if (n == 0) break;
    bytes.append(block, n);
    check(bytes.size() <= max_bytes, ErrorCode::corrupt, "{}: expected at most {} bytes of text",
          path.string(), max_bytes);
  }
  return decode_text(bytes, path.string());
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

TextPlace place_in(std::string_view text, size_t byte) {
  TextPlace place;
  for (const char c : text.substr(0, std::min(byte, text.size()))) {
    if (c == '\n')
      ++place.line, place.column = 1;
    else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80)
      ++place.column;
  }
  return place;
}

}  // namespace tachy
