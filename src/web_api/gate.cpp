#include "web_api/gate.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <memory>

#include "http/access.h"
#include "web_api/api_error.h"
#include "web_api/hosts/host_secret.h"
#include "web_api/links.h"

namespace tachy::web_api {
namespace {

int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool same_letters(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

// Says whether a Host header is this name, with or without a port.
bool is_host(std::string_view host, std::string_view name) {
  if (!same_letters(host.substr(0, name.size()), name)) return false;
  const std::string_view port = host.substr(name.size());
  return port.empty() || (port.size() > 1 && port.size() <= 6 && port[0] == ':' &&
                          port.find_first_not_of("0123456789", 1) == port.npos);
}

int64_t count_of(const http::Request& request, std::string_view name) {
  return std::count_if(request.headers.begin(), request.headers.end(),
                       [&](const auto& header) { return same_letters(header.first, name); });
}

class Guard {
 public:
  explicit Guard(GateOptions options) : options_(std::move(options)), access_(options_.host, "") {
    if (!options_.now) options_.now = seconds_now;
  }

  std::optional<http::Reply> operator()(http::Request& request, const http::Route* route) const {
    if (options_.host_caller && !request.header(kHostHeader).empty()) {
      auto caller = options_.host_caller(request);
      if (!caller)
        return error_reply(ApiError("invalid_api_key", "no host of this queue has signed this request"));
      request.caller = std::move(*caller), request.of_host = true;
      return std::nullopt;
    }
    if (auto refused = of_elsewhere(request)) return refused;
    if (!options_.keys) {
      request.caller = {.priority = request.loopback};
      return std::nullopt;
    }
    if (auto caller = options_.keys->find(bearer_of(request.header("Authorization")))) {
      request.caller = std::move(*caller);
      return std::nullopt;
    }
    if (route && route->open) return std::nullopt;
    if (has_link(request)) {
      request.caller = {.admin = true};  // for this one GET
      return std::nullopt;
    }
    ApiError error("invalid_api_key",
                   request.header("Authorization").empty()
                       ? "this server needs a key: send the header `Authorization: Bearer KEY`"
                       : "this is not a key of this server");
    error.headers.emplace_back("WWW-Authenticate", "Bearer");
    return error_reply(error);
  }

 private:
  std::optional<http::Reply> of_elsewhere(const http::Request& request) const {
    const std::string_view host = request.header("Host");
    const bool named = std::any_of(options_.names.begin(), options_.names.end(),
                                   [&](const std::string& name) { return is_host(host, name); });
    if (count_of(request, "Host") != 1 || !(named || access_.host_allowed(host)))
      return error_reply(
          ApiError("forbidden_host",
                   "the Host header is not a name of this server; whoever starts the server can "
                   "give it more public names"));
    const int64_t origins = count_of(request, "Origin");
    if (origins == 0 || (origins == 1 && http::Access::origin_allowed(request.header("Origin"), host)))
      return std::nullopt;
    return error_reply(ApiError("forbidden_origin", "a page from elsewhere may not use this server"));
  }

  bool has_link(const http::Request& request) const {
    if (request.method != "GET" && request.method != "HEAD") return false;
    const std::string_view id = linked_id(request.path);
    const std::string* const expires = request.asked("expires");
    const std::string* const signature = request.asked("signature");
    return !id.empty() && expires && signature &&
           link_verified(options_.link_secret, id, *expires, *signature, options_.now());
  }

  GateOptions options_;
  http::Access access_;
};

}  // namespace

Gate make_gate(GateOptions options) {
  auto guard = std::make_shared<const Guard>(std::move(options));
  return [guard](http::Request& request, const http::Route* route) { return (*guard)(request, route); };
}

}  // namespace tachy::web_api
