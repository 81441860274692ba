#include "web_api/fetch_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"
#include "base/os/file.h"
#include "base/random_bytes.h"
#include "base/sha256.h"
#include "web_api/api_error.h"
#include "web_api/curl.h"
#include "web_api/job_request.h"

namespace tachy::web_api {
namespace {

// The first `bits` bits of the address are those of the network.
struct Network {
  std::array<uint8_t, 16> bytes;
  int bits;
};

bool is_in(const uint8_t* address, const Network& network) {
  for (int bit = 0; bit < network.bits; ++bit)
    if ((address[bit / 8] ^ network.bytes[static_cast<size_t>(bit / 8)]) >> (7 - bit % 8) & 1) return false;
  return true;
}

bool is_public_four(const uint8_t* address) {
  static constexpr Network kOthers[] = {
      {{0}, 8},              // this network
      {{10}, 8},             // private
      {{100, 64}, 10},       // shared by a provider's customers
      {{127}, 8},            // this machine
      {{169, 254}, 16},      // of one link; clouds keep their machines' secrets there
      {{172, 16}, 12},       // private
      {{192, 0, 0}, 24},     // of protocols
      {{192, 0, 2}, 24},     // in documents
      {{192, 88, 99}, 24},   // relays from IPv6
      {{192, 168}, 16},      // private
      {{198, 18}, 15},       // measurements
      {{198, 51, 100}, 24},  // in documents
      {{203, 0, 113}, 24},   // in documents
      {{224}, 3},            // groups, reserved, everybody
  };
  return std::none_of(std::begin(kOthers), std::end(kOthers),
                      [&](const Network& network) { return is_in(address, network); });
}

bool is_public_six(const uint8_t* address) {
  static constexpr Network kMapped = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};  // ::ffff:1.2.3.4
  static constexpr Network kTranslated = {{0x00, 0x64, 0xff, 0x9b}, 96};                // 64:ff9b::1.2.3.4
  static constexpr Network kInternet = {{0x20}, 3};
  static constexpr Network kOthers[] = {
      {{0x20, 0x01, 0x00}, 23},        // of protocols, Teredo's addresses of IPv4 among them
      {{0x20, 0x01, 0x0d, 0xb8}, 32},  // in documents
      {{0x20, 0x02}, 16},              // holds an address of IPv4
      {{0x3f, 0xff, 0x00}, 20},        // in documents
  };
  if (is_in(address, kMapped) || is_in(address, kTranslated)) return is_public_four(address + 12);
  return is_in(address, kInternet) &&
         std::none_of(std::begin(kOthers), std::end(kOthers),
                      [&](const auto& network) { return is_in(address, network); });
}

[[noreturn]] void refuse(const std::string& message) { throw ApiError("invalid_value", message); }

void check_url(const std::string& url, const UrlRules& rules) {
  const auto parts = url_parts(url);
  if (!parts) refuse("this is not an address");
  if (parts->scheme != "http" && parts->scheme != "https")
    refuse("an input is fetched by http or https alone");
  if (parts->user) refuse("an address may not have a user or a password");
  const bool usual = parts->port == (parts->scheme == "https" ? 443 : 80);
  const std::string with_port = fmt::format("{}:{}", parts->host, parts->port);
  const bool listed = std::any_of(rules.hosts.begin(), rules.hosts.end(), [&](const std::string& host) {
    return host == with_port || (usual && host == parts->host);
  });
  if (!listed) refuse(fmt::format("this server fetches no inputs from {}", usual ? parts->host : with_port));
}

// A file under a name of ours, which gets its hash while it is written.
class Sink {
 public:
  explicit Sink(const std::filesystem::path& folder)
      : path_(folder / ("fetched-" + random_hex(24))), file_(path_, os::OpenAs::new_file, error_) {
    check(!error_, ErrorCode::io, "{}: cannot write it: {}", path_.string(), error_.message());
    spooled_ = std::make_shared<http::SpooledFile>(path_, "", "");  // removes it from now on
  }
  bool take(std::string_view bytes) {
    hash_.add(bytes);
    bytes_ += bytes.size();
    error_ = file_.write(bytes.data(), bytes.size());
    return !error_;
  }
  const std::error_code& error() const { return error_; }
  std::shared_ptr<http::SpooledFile> finish(const std::string& type) {
    if (!error_) error_ = file_.close();
    check(!error_, ErrorCode::io, "{}: cannot write it: {}", path_.string(), error_.message());
    // The type is known only now, and the file has one owner at a time.
    auto out = std::make_shared<http::SpooledFile>(path_.string() + "-whole", "", type);
    std::filesystem::rename(path_, out->path(), error_);
    check(!error_, ErrorCode::io, "{}: cannot write it: {}", path_.string(), error_.message());
    out->bytes = bytes_, out->sha256 = hash_.hex();
    return out;
  }

 private:
  std::filesystem::path path_;
  std::error_code error_;
  os::File file_;
  std::shared_ptr<http::SpooledFile> spooled_;
  Sha256 hash_;
  uint64_t bytes_ = 0;
};

}  // namespace

bool is_public_address(const os::IpAddress& address) {
  return address.six ? is_public_six(address.bytes.data()) : is_public_four(address.bytes.data());
}

std::shared_ptr<http::SpooledFile> fetch_url(const std::string& url, const std::filesystem::path& folder,
                                             const UrlRules& rules) {
  if (rules.hosts.empty()) refuse("this server fetches no inputs; send the file itself");
  const double until = monotonic_seconds() + rules.seconds;
  std::string at = url;
  for (int hop = 0; hop <= rules.redirects; ++hop) {
    check_url(at, rules);
    Sink sink(folder);
    HttpCall call{.url = at, .most_bytes = rules.most_bytes};
    call.seconds = std::max(0.1, until - monotonic_seconds());
    call.may_connect = rules.may_connect;
    call.take = [&](std::string_view bytes) { return sink.take(bytes); };
    HttpAnswer answer;
    try {
      answer = http_call(call);
    } catch (const Error& e) {
      check(!sink.error(), ErrorCode::io, "cannot keep a fetched input: {}", sink.error().message());
      if (e.code() != ErrorCode::io) throw;
      refuse("cannot fetch it: " + e.message());
    }
    if (answer.status == 200) return sink.finish(answer.type);
    if (answer.redirect.empty()) refuse(fmt::format("cannot fetch it: its server answers {}", answer.status));
    at = answer.redirect;
  }
  refuse(fmt::format("cannot fetch it: it leads elsewhere more than {} times", rules.redirects));
}

std::shared_ptr<http::SpooledFile> fetch_url(const std::string& url, const Offers& offers) {
  UrlRules rules;
  rules.hosts = offers.url_hosts;
  rules.most_bytes = offers.upload_bytes;
  return fetch_url(url, offers.spool, rules);
}

}  // namespace tachy::web_api
