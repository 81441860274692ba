#include "http/file_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace tachy::http {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Reads a number that is all of the text. One that is too large for 64 bits is the largest.
std::optional<uint64_t> number(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc::result_out_of_range ? UINT64_MAX : value;
}

struct Span {
  uint64_t from = 0, bytes = 0;  // bytes is 0 if the range has none of the file's bytes
};

// Returns nothing for anything but one well-formed range of bytes.
std::optional<Span> parse_range(std::string_view text, uint64_t size) {
  const size_t equals = text.find('=');
  if (equals == text.npos || !equal_names(trimmed(text.substr(0, equals)), "bytes")) return std::nullopt;
  const std::string_view range = trimmed(text.substr(equals + 1));
  const size_t dash = range.find('-');
  if (dash == range.npos) return std::nullopt;
  const auto first = number(range.substr(0, dash)), last = number(range.substr(dash + 1));
  if (dash == 0) {  // "-500": the last 500 bytes
    if (!last) return std::nullopt;
    const uint64_t bytes = std::min(*last, size);
    return Span{size - bytes, bytes};
  }
  if (!first || (!last && dash + 1 != range.size()) || (last && *last < *first)) return std::nullopt;
  if (*first >= size) return Span{};
  return Span{*first, std::min(last.value_or(UINT64_MAX), size - 1) - *first + 1};
}

std::string_view strong_part(std::string_view etag) { return etag.starts_with("W/") ? etag.substr(2) : etag; }

}  // namespace

bool etag_matches(std::string_view list, std::string_view etag) {
  if (trimmed(list) == "*") return true;
  if (etag.empty()) return false;
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), one.size() + 1));
    if (strong_part(trimmed(one)) == strong_part(etag)) return true;
  }
  return false;
}

FileAnswer answer_file(const Request& request, uint64_t size, std::string_view etag) {
  FileAnswer out{.bytes = size, .headers = {{"Accept-Ranges", "bytes"}}};
  if (!etag.empty()) out.headers.emplace_back("ETag", std::string(etag));
  const std::string_view known = request.header("If-None-Match");
  if (!known.empty() && etag_matches(known, etag)) {
    out.status = 304, out.bytes = 0;
    return out;
  }
  const std::string_view range = request.header("Range"), condition = trimmed(request.header("If-Range"));
  // If-Range compares strongly, and a date in it never fits, because no Last-Modified is sent.
  const bool still_the_same =
      condition.empty() || (!etag.empty() && !etag.starts_with("W/") && condition == etag);
  if (range.empty() || request.method != "GET" || !still_the_same) return out;
  const auto span = parse_range(range, size);
  if (!span) return out;
  if (span->bytes == 0) {
    out.status = 416, out.bytes = 0;
    out.headers.emplace_back("Content-Range", fmt::format("bytes */{}", size));
    return out;
  }
  out.status = 206, out.from = span->from, out.bytes = span->bytes;
  out.headers.emplace_back("Content-Range",
                           fmt::format("bytes {}-{}/{}", span->from, span->from + span->bytes - 1, size));
  return out;
}

}  // namespace tachy::http
