#include "web_api/hosts/store.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "base/env.h"
#include "base/error.h"
#include "base/hmac.h"
#include "base/os/file.h"
#include "base/sha256.h"
#include "web_api/curl.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 3;
constexpr double kSeconds = 600;  // for one file
constexpr uint64_t kMostBytes = uint64_t{64} << 30;
const std::string kNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";  // sha256 of ""

std::string hex_digits(const Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

// Every character but these, and slashes, is encoded in the path of an object.
std::string encoded(std::string_view path) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string out;
  for (const char c : path)
    if (kPlain.find(c) != kPlain.npos)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

std::string host_of(const std::string& endpoint) { return endpoint.substr(endpoint.find("://") + 3); }

std::string sha256_of_file(const fs::path& file) {
  std::error_code error;
  os::File in(file, os::OpenAs::input, error);
  Sha256 hash;
  std::string piece(1 << 20, '\0');
  while (!error) {
    const size_t bytes = in.read(piece.data(), piece.size(), error);
    if (bytes == 0) break;
    hash.add(std::string_view(piece).substr(0, bytes));
  }
  check(!error, ErrorCode::io, "{}: cannot be read: {}", file.filename().string(), error.message());
  return hash.hex();
}

// Says whether it may help to ask again.
bool passes(int status) { return status == 429 || status >= 500; }

// Repeats a call whose answer is an error of the store or none. Returns the status.
int with_patience(const std::function<int()>& call) {
  for (int tries = 1;; ++tries) {
    try {
      const int status = call();
      if (!passes(status) || tries == kTries) return status;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::io || tries == kTries) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500 * tries));
  }
}

}  // namespace

S3Options s3_options(const std::string& url) {
  constexpr std::string_view kScheme = "s3://";
  require(url.starts_with(kScheme), "expected s3://BUCKET/PREFIX, got '{}'", url);
  S3Options out;
  const std::string rest = url.substr(kScheme.size());
  const size_t slash = rest.find('/');
  out.bucket = rest.substr(0, slash);
  if (slash != rest.npos) out.prefix = rest.substr(slash + 1);
  while (out.prefix.ends_with("/")) out.prefix.pop_back();
  require(out.bucket.size() >= 3 &&
              out.bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == out.bucket.npos,
          "expected s3://BUCKET/PREFIX with a bucket's name of small letters, digits, '.' and '-', got '{}'",
          url);
  out.key_id = env_string("AWS_ACCESS_KEY_ID", ""), out.secret = env_string("AWS_SECRET_ACCESS_KEY", "");
  out.session = env_string("AWS_SESSION_TOKEN", ""), out.region = env_string("AWS_REGION", "us-east-1");
  out.endpoint = env_string("AWS_ENDPOINT_URL", fmt::format("https://s3.{}.amazonaws.com", out.region));
  while (out.endpoint.ends_with("/")) out.endpoint.pop_back();
  require(!out.key_id.empty() && !out.secret.empty(),
          "the environment needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  require(out.endpoint.starts_with("https://") || out.endpoint.starts_with("http://"),
          "AWS_ENDPOINT_URL: expected an address of http or https, got '{}'", out.endpoint);
  return out;
}

std::vector<std::string> s3_headers(const S3Options& o, std::string_view method, const std::string& host,
                                    const std::string& path, const std::string& payload_sha256) {
  const std::time_t now = o.now_s ? o.now_s() : std::time(nullptr);
  const std::string date = fmt::format("{:%Y%m%d}", fmt::gmtime(now));
  const std::string time = fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
  std::string headers =
      fmt::format("host:{}\nx-amz-content-sha256:{}\nx-amz-date:{}\n", host, payload_sha256, time);
  std::string names = "host;x-amz-content-sha256;x-amz-date";
  if (!o.session.empty())
    headers += "x-amz-security-token:" + o.session + "\n", names += ";x-amz-security-token";
  const std::string request =
      fmt::format("{}\n{}\n\n{}\n{}\n{}", method, path, headers, names, payload_sha256);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", date, o.region);
  const std::string text =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, hex_digits(sha256(request)));
  std::string key = "AWS4" + o.secret;
  for (const std::string& part : {date, o.region, std::string("s3"), std::string("aws4_request")})
    key = std::string(bytes_of(hmac_sha256(key, part)));
  std::vector<std::string> out = {
      "x-amz-date: " + time, "x-amz-content-sha256: " + payload_sha256,
      fmt::format("Authorization: AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
                  o.key_id, scope, names, hex_digits(hmac_sha256(key, text)))};
  if (!o.session.empty()) out.push_back("x-amz-security-token: " + o.session);
  return out;
}

S3Store::S3Store(S3Options options) : options_(std::move(options)) { need_curl(); }

std::string S3Store::path_of(const std::string& id, const std::string& name) const {
  const std::string prefix = options_.prefix.empty() ? "" : options_.prefix + "/";
  return encoded(fmt::format("/{}/{}{}/{}", options_.bucket, prefix, id, name));
}

void S3Store::put(const std::string& id, const std::string& name, const fs::path& file) const {
  const std::string path = path_of(id, name), hash = sha256_of_file(file);
  const int status = with_patience([&] {
    HttpCall call{.url = options_.endpoint + path, .body = {}, .seconds = kSeconds};
    call.method = "PUT", call.upload = file;
    call.headers = s3_headers(options_, "PUT", host_of(options_.endpoint), path, hash);
    call.headers.push_back("Expect:");
    return http_call(call).status;
  });
  check(status == 200, ErrorCode::io, "the store has not taken {} (its status is {})", name, status);
}

bool S3Store::get(const std::string& id, const std::string& name, const fs::path& to) const {
  const std::string path = path_of(id, name);
  const int status = with_patience([&] {
    std::error_code error;
    fs::remove(to, error);
    os::File out(to, os::OpenAs::new_file, error);
    check(!error, ErrorCode::io, "a fetched file cannot be written: {}", error.message());
    HttpCall call{.url = options_.endpoint + path, .body = {}, .seconds = kSeconds, .most_bytes = kMostBytes};
    call.headers = s3_headers(options_, "GET", host_of(options_.endpoint), path, kNothing);
    call.take = [&](std::string_view bytes) { return !out.write(bytes.data(), bytes.size()); };
    return http_call(call).status;
  });
  check(status == 200 || status == 404, ErrorCode::io, "the store does not send {} (its status is {})", name,
        status);
  std::error_code ignored;
  if (status == 404) fs::remove(to, ignored);
  return status == 200;
}

void S3Store::remove(const std::string& id, const std::string& name) const {
  const std::string path = path_of(id, name);
  const int status = with_patience([&] {
    HttpCall call{.url = options_.endpoint + path, .body = {}};
    call.method = "DELETE";
    call.headers = s3_headers(options_, "DELETE", host_of(options_.endpoint), path, kNothing);
    return http_call(call).status;
  });
  check(status == 204 || status == 200 || status == 404, ErrorCode::io,
        "the store does not remove {} (its status is {})", name, status);
}

}  // namespace tachy::web_api
