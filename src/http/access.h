// Decides who may send requests: checks a request's Host and Origin, and the token.
//
// A page that listens only on this machine answers only to the names of this machine, so that a foreign page
// whose name was pointed here (DNS rebinding) gets nothing. A request that changes something must come from
// our own page (its Origin is the Host's), so that a foreign page cannot send it. Beyond this machine a token
// is needed, too.
#pragma once

#include <string>
#include <string_view>

namespace tachy::http {

bool is_loopback(std::string_view address);  // "127.0.0.1", "::1", "localhost"
bool is_token(std::string_view text);        // 8 to 128 letters, digits, - and _
std::string random_token();                  // 128 bits

// Returns the value of ?name=… in a request's target, or "". Nothing is decoded: tokens and ids need no
// decoding.
std::string_view query_value(std::string_view target, std::string_view name);
std::string_view path_of(std::string_view target);  // without the query

class Access {
 public:
  // `host` is the address or name to listen on; with an empty `token` none is needed.
  Access(std::string host, std::string token);

  bool host_allowed(std::string_view host) const;  // a Host header: name or name:port
  static bool origin_allowed(std::string_view origin, std::string_view host);  // true for http(s)://HOST
  bool token_allowed(std::string_view token) const;  // takes the same time for any token
  const std::string& token() const { return token_; }

 private:
  std::string host_, token_, machine_;
  bool loopback_;
};

}  // namespace tachy::http
