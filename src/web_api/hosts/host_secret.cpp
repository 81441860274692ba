#include "web_api/hosts/host_secret.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <vector>

#include "base/base64.h"
#include "base/error.h"
#include "base/hmac.h"
#include "base/os/network.h"
#include "base/text_file.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kValidSeconds = 60;
constexpr size_t kLeastBytes = 32;

std::string rights_of(const http::Caller& caller) {
  return fmt::format("{}{}", caller.priority ? "p" : "", caller.admin ? "a" : "");
}

std::vector<std::string_view> fields_of_header(std::string_view text) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t end = text.find(';');
    fields.push_back(text.substr(0, end));
    if (end == text.npos) return fields;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

HostSecret HostSecret::read(const fs::path& file) {
  std::string text = read_text_file(file, 4096);
  std::error_code error;
  const fs::perms mode = fs::status(file, error).permissions();
  require(error || (mode & (fs::perms::group_all | fs::perms::others_all)) == fs::perms::none,
          "{}: others may read this secret; take that right away (chmod 600)", file.string());
  while (text.ends_with("\n") || text.ends_with("\r") || text.ends_with(" ")) text.pop_back();
  require(text.size() >= kLeastBytes, "{}: expected a secret of at least {} bytes, got {}", file.string(),
          kLeastBytes, text.size());
  return HostSecret(std::move(text));
}

std::string HostSecret::signature(const std::string& text) const {
  return to_base64url(bytes_of(hmac_sha256(secret_, text)));
}

std::string HostSecret::for_links() const { return std::string(bytes_of(hmac_sha256(secret_, "links"))); }

std::string HostSecret::signed_for(const std::string& host, const std::string& target,
                                   const http::Caller& caller, int64_t now_s,
                                   const std::string& method) const {
  const std::string said =
      fmt::format("1;{};{};{};{}", now_s, host, to_base64url(caller.key), rights_of(caller));
  return said + ";" + signature("host\n" + method + "\n" + target + "\n" + said);
}

std::optional<http::Caller> HostSecret::verified(const http::Request& request, const std::string& host,
                                                 int64_t now_s) const {
  if ((request.method != "GET" && request.method != "DELETE") ||
      request.body_kind != http::Request::Body::none)
    return std::nullopt;
  const std::string_view header = request.header(kHostHeader);
  const std::vector<std::string_view> fields = fields_of_header(header);
  if (fields.size() != 6 || fields[0] != "1" || fields[2] != host) return std::nullopt;
  const std::string said(header.substr(0, header.rfind(';')));
  if (!equal_in_constant_time(fields[5],
                              signature("host\n" + request.method + "\n" + target_of(request) + "\n" + said)))
    return std::nullopt;
  int64_t then = 0;
  const auto [end, error] = std::from_chars(fields[1].data(), fields[1].data() + fields[1].size(), then);
  if (error != std::errc() || end != fields[1].data() + fields[1].size() ||
      std::abs(now_s - then) > kValidSeconds)
    return std::nullopt;
  const std::optional<std::string> key = from_base64url(fields[3]);
  if (!key) return std::nullopt;
  return http::Caller{.key = *key,
                      .priority = fields[4].find('p') != std::string_view::npos,
                      .admin = fields[4].find('a') != std::string_view::npos};
}

std::string target_of(const http::Request& request) {
  std::string target = request.path;
  char sign = '?';
  for (const auto& [name, value] : request.query) target += sign + name + "=" + value, sign = '&';
  return target;
}

bool is_host_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0 || text.size() > 300) return false;
  int port = 0;
  const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65'535) return false;
  const std::string host = text.substr(0, colon);
  if (host.front() == '[') {
    return host.back() == ']' && os::is_ipv6_address(host.substr(1, host.size() - 2));
  }
  return std::ranges::all_of(host, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
  });
}

}  // namespace tachy::web_api
