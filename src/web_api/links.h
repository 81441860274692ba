// Signatures and tickets for browsers, where they cannot send a key.
//
// A signed link: <video> and <img> have an address alone, so it carries a signature, by HMAC-SHA256 with the server's
// secret, of one job's id, GET and a time of expiry. A ticket: a WebSocket has no header of ours, so its first message
// is a text that was fetched with the key a moment ago. It counts once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace tachy::web_api {

inline constexpr int64_t kLinkSeconds = 600;
inline constexpr int64_t kTicketSeconds = 60;

// Returns "expires=1764270000&signature=…", which follows the "?" of an address of this job. `expires_s` counts
// from 1970.
std::string signed_query(std::string_view secret, std::string_view id, int64_t expires_s);
// Says whether the two values come from signed_query() for this id, and the time has not come yet.
bool link_verified(std::string_view secret, std::string_view id, std::string_view expires,
                   std::string_view signature, int64_t now_s);
// Returns the id of the job if the path is one that a signed link may name: /v1/videos/ID/content and
// /v1/videos/ID/previews/N; otherwise "".
std::string_view linked_id(std::string_view path);

// Returns the secret in FILES/link-secret, which is made if it is not there, so that links outlive a restart.
// Throws io, and corrupt if others may read the file or it is cut short.
std::string link_secret(const std::filesystem::path& files);

class Tickets {
 public:
  explicit Tickets(int64_t seconds = kTicketSeconds, size_t most = 10'000) : seconds_(seconds), most_(most) {}
  // Returns a ticket of this caller. Throws unsupported while too many wait to be used.
  std::string issue(const http::Caller& caller, int64_t now_s);
  // Returns whose ticket it is, once; nothing if it has expired or there is none.
  std::optional<http::Caller> take(const std::string& ticket, int64_t now_s);

 private:
  struct Issued {
    http::Caller caller;
    int64_t until_s = 0;
  };
  int64_t seconds_;
  size_t most_;
  std::mutex mutex_;
  std::map<std::string, Issued>
      issued_;  // under the hash of the ticket, so that a look-up tells nothing by its time
};

}  // namespace tachy::web_api
