// Decides who may send a request to the interface, before its body is read (the gate of http::ServerOptions).
//
// Its Host must be a name of this machine or of the server, so that a foreign page whose name was pointed here (DNS
// rebinding) gets nothing. An Origin, which browsers send with what a page asks for, must be the Host's own; "null"
// is foreign. Where the server has keys, everything but a route that is open needs one, or a signed link (links.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "http/message.h"
#include "http/router.h"
#include "web_api/keys.h"

namespace tachy::web_api {

struct GateOptions {
  std::string host;                // the address or name to listen on
  std::vector<std::string> names;  // other names that a Host header may have
  std::optional<Keys> keys;        // none: the server is open, and a key that comes is ignored
  std::string link_secret;         // "": there are no signed links
  // Returns on whose behalf another host of the queue asks, if the request is one that it has passed on and signed
  // (hosts/host_secret.h); empty: there are no other hosts.
  std::function<std::optional<http::Caller>(const http::Request& request)> host_caller = {};
  std::function<int64_t()> now = {};  // seconds since 1970; empty: the clock
};

using Gate = std::function<std::optional<http::Reply>(http::Request& request, const http::Route* route)>;
Gate make_gate(GateOptions options);

}  // namespace tachy::web_api
