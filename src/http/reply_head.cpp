#include "http/reply_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>
#include <utility>

namespace tachy::http {
namespace {

constexpr std::pair<int, std::string_view> kReasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

// Days and months are English in HTTP, whatever the locale.
std::string http_date(std::time_t now) {
  constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::tm t = fmt::gmtime(now);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[static_cast<size_t>(t.tm_wday)],
                     t.tm_mday, kMonths[static_cast<size_t>(t.tm_mon)], t.tm_year + 1900, t.tm_hour, t.tm_min,
                     t.tm_sec);
}

void add_line(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  for (const char c : value)
    out += (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == '\x7f' ? ' ' : c;
  out += "\r\n";
}

}  // namespace

std::string_view reason_phrase(int status) {
  for (const auto& [code, reason] : kReasons)
    if (code == status) return reason;
  return "Status";
}

std::string reply_head(int status, const Pairs& headers, const HeadShape& shape) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  bool caching = false, sniffing = false, tagged = false;
  for (const auto& [name, value] : headers) {
    bool ours = false;
    for (const auto* own : {"Date", "Content-Length", "Transfer-Encoding", "Connection"})
      ours = ours || equal_names(name, own);
    if (ours) continue;
    caching = caching || equal_names(name, "Cache-Control");
    sniffing = sniffing || equal_names(name, "X-Content-Type-Options");
    tagged = tagged || equal_names(name, "ETag");
    add_line(out, name, value);
  }
  if (!caching) add_line(out, "Cache-Control", tagged ? "no-cache" : "no-store");
  if (!sniffing) add_line(out, "X-Content-Type-Options", "nosniff");
  add_line(out, "Date", http_date(std::time(nullptr)));
  if (shape.length) add_line(out, "Content-Length", std::to_string(*shape.length));
  if (shape.chunked) add_line(out, "Transfer-Encoding", "chunked");
  if (!shape.keep_alive)
    add_line(out, "Connection", "close");
  else if (shape.http_1_0)
    add_line(out, "Connection", "keep-alive");
  out += "\r\n";
  return out;
}

}  // namespace tachy::http
