// A store of finished videos that speaks the protocol of S3 (Amazon's, MinIO's, Ceph's): each file of a job is an object
// BUCKET/PREFIX/ID/NAME. Whoever has made a video stores it before the table says that it is finished, so any host can send
// it, even when its maker is gone.
//
// Requests are signed by AWS's Signature Version 4, with keys from the environment, as other programs take them:
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN (for keys that expire), AWS_REGION (us-east-1), and
// AWS_ENDPOINT_URL for a store that is not Amazon's. Objects are addressed by path (ENDPOINT/BUCKET/…).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tachy::web_api {

struct S3Options {
  std::string bucket, prefix;  // of s3://BUCKET/PREFIX
  std::string endpoint;        // "https://s3.eu-central-1.amazonaws.com", without a slash at its end
  std::string region, key_id, secret, session;
  std::function<int64_t()> now_s = {};  // since 1970; empty: the clock
};

// Reads s3://BUCKET/PREFIX and the environment. Throws invalid_argument for what is missing or wrong.
S3Options s3_options(const std::string& url);

// Returns the headers of a signed request: Authorization, x-amz-date, x-amz-content-sha256, and the session's token.
// `path` is encoded, `payload_sha256` is the content's hash in hexadecimal digits.
std::vector<std::string> s3_headers(const S3Options& options, std::string_view method,
                                    const std::string& host, const std::string& path,
                                    const std::string& payload_sha256);

class S3Store {
 public:
  explicit S3Store(S3Options options);  // throws unsupported if there is no libcurl

  // Stores a file. Throws io, with the store's status, after a few tries.
  void put(const std::string& id, const std::string& name, const std::filesystem::path& file) const;
  // Fetches one into a new file; false: the store has none. Throws io.
  bool get(const std::string& id, const std::string& name, const std::filesystem::path& to) const;
  void remove(const std::string& id,
              const std::string& name) const;  // throws io; does nothing if there is none

 private:
  std::string path_of(const std::string& id, const std::string& name) const;
  S3Options options_;
};

}  // namespace tachy::web_api
