// The secret that the hosts of a queue share, and what one says to another under it: on whose behalf a request comes.
//
// A request that is passed on has the header Tachyscope-Host with the name of the key, its rights, the name of the host
// that it is for, the time by the table's clock, and a signature by HMAC-SHA256 of all that with the method and the whole
// address. So it counts for this one GET or DELETE, at this one host, for a minute.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "http/message.h"

namespace tachy::web_api {

inline constexpr const char* kHostHeader = "Tachyscope-Host";

class HostSecret {
 public:
  explicit HostSecret(std::string secret) : secret_(std::move(secret)) {}
  // Reads a file whose first line is the secret. Throws not_found and io, and invalid_argument if it has fewer than 32
  // bytes or others may read it.
  static HostSecret read(const std::filesystem::path& file);

  // Returns the header's value for a request for this address ("/v1/videos/ID/content?variant=video").
  std::string signed_for(const std::string& host, const std::string& target, const http::Caller& caller,
                         int64_t now_s, const std::string& method = "GET") const;
  // Returns on whose behalf the request comes, or nothing if no host has signed it for this one, or too long ago.
  std::optional<http::Caller> verified(const http::Request& request, const std::string& host,
                                       int64_t now_s) const;
  // Returns a secret for signed links, which is the same on all hosts.
  std::string for_links() const;

 private:
  std::string signature(const std::string& text) const;
  std::string secret_;
};

// Returns the address as both sides sign it: the decoded path, and the query in its order.
std::string target_of(const http::Request& request);

// Says whether a text is what a host announces: a name or an address of IPv4 or (in brackets) IPv6, and a port.
bool is_host_address(const std::string& text);

}  // namespace tachy::web_api
