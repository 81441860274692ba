// Inputs that a caller gives by address. The server asks for them from where it stands, so without care a caller could
// make it ask a machine that only the server reaches. So a host must be on the list that the server was started with,
// and each address that is really connected to, of every redirect as well, must be a public one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/os/network.h"
#include "http/message.h"

namespace tachy::web_api {

struct Offers;  // job_request.h

// Says whether anybody on the internet may have this address: it is not of this machine, of a private or local network,
// of a group, reserved, or one that hides such an address of IPv4 in IPv6.
bool is_public_address(const os::IpAddress& address);

struct UrlRules {
  std::vector<std::string> hosts;  // "images.example.org", "files.example.org:8443"
  uint64_t most_bytes = uint64_t{512} << 20;
  double seconds = 60;  // for everything
  int redirects = 3;
  std::function<bool(const os::IpAddress&)> may_connect = is_public_address;
};

// Fetches a file into the folder. Throws ApiError (invalid_value, too_large) saying what is wrong with the address, and
// Error io if the file cannot be written.
std::shared_ptr<http::SpooledFile> fetch_url(const std::string& url, const std::filesystem::path& folder,
                                             const UrlRules& rules);
// As above, by what the server allows.
std::shared_ptr<http::SpooledFile> fetch_url(const std::string& url, const Offers& offers);

}  // namespace tachy::web_api
