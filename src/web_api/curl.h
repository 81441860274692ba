// Requests to other servers, by libcurl, which is opened at run time: who neither has a webhook nor lets inputs be
// fetched does not need it.
//
// Nothing of the environment counts (proxies, .netrc), there are no cookies, and redirects are not followed: the caller
// looks at them and asks again.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/network.h"

namespace tachy::web_api {

// Throws unsupported, with what was tried, if libcurl is not here.
void need_curl();

// An address as libcurl itself reads it, so that what is checked is what it then connects to.
struct UrlParts {
  std::string scheme, host;  // in small letters; an IPv6 address without its brackets
  int port = 0;
  bool user = false;  // whether it has a user or a password
};
std::optional<UrlParts> url_parts(const std::string& url);  // nothing if it is no address

struct HttpCall {
  std::string url;                   // http or https
  std::optional<std::string> body;   // is sent by POST; without it the call is a GET
  std::string method;                // "PUT" or "DELETE" in place of these two
  std::filesystem::path upload;      // for PUT: the file that is sent
  std::vector<std::string> headers;  // "name: value"
  double connect_seconds = 10, seconds = 30;
  int silent_seconds = 0;         // ends a call in which nothing came for so long; 0: none
  uint64_t most_bytes = 1 << 20;  // of the answer
  // Is asked with each address before it is connected to; empty: every one is fine.
  std::function<bool(const os::IpAddress& address)> may_connect;
  // Gets the content of an answer with status 200 as it comes; false ends the call. Empty: it is dropped.
  std::function<bool(std::string_view bytes)> take;
  const std::atomic<bool>* cancel = nullptr;
};

struct HttpAnswer {
  int status = 0;
  std::string type;      // its Content-Type, or ""
  std::string redirect;  // the whole address to which it leads, or ""
};

// Throws io with libcurl's reason if there is no answer, or it is too large or too slow; cancelled; and unsupported as
// need_curl().
HttpAnswer http_call(const HttpCall& call);

}  // namespace tachy::web_api
