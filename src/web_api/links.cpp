#include "web_api/links.h"

#include <charconv>
#include <system_error>

#include "base/base64.h"
#include "base/disk.h"
#include "base/error.h"
#include "base/hmac.h"
#include "base/os/file.h"
#include "base/random_bytes.h"
#include "base/text_file.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

std::string signature_of(std::string_view secret, std::string_view id, std::string_view expires) {
  return to_base64url(bytes_of(hmac_sha256(secret, fmt::format("link\nGET\n{}\n{}", id, expires))));
}

std::string hash_of(std::string_view ticket) { return std::string(bytes_of(sha256(ticket))); }

}  // namespace

std::string signed_query(std::string_view secret, std::string_view id, int64_t expires_s) {
  const std::string expires = std::to_string(expires_s);
  return fmt::format("expires={}&signature={}", expires, signature_of(secret, id, expires));
}

bool link_verified(std::string_view secret, std::string_view id, std::string_view expires,
                   std::string_view signature, int64_t now_s) {
  if (secret.empty() || !equal_in_constant_time(signature, signature_of(secret, id, expires))) return false;
  int64_t until = 0;
  const auto [end, error] = std::from_chars(expires.data(), expires.data() + expires.size(), until);
  return error == std::errc() && end == expires.data() + expires.size() && now_s < until;
}

std::string_view linked_id(std::string_view path) {
  constexpr std::string_view kFolder = "/v1/videos/";
  if (!path.starts_with(kFolder)) return "";
  path.remove_prefix(kFolder.size());
  const size_t slash = path.find('/');
  if (slash == path.npos) return "";
  std::string_view rest = path.substr(slash + 1);
  if (rest == "content") return path.substr(0, slash);
  for (const std::string_view folder : {"previews/", "inputs/"}) {
    if (!rest.starts_with(folder)) continue;
    rest.remove_prefix(folder.size());
    return !rest.empty() && rest.find('/') == rest.npos ? path.substr(0, slash) : "";
  }
  return "";
}

std::string link_secret(const fs::path& files) {
  const fs::path file = files / "link-secret";
  std::error_code error;
  if (!fs::exists(file, error)) {
    const fs::path fresh = file.string() + "." + random_hex(8) + ".new";
    const std::string text = to_base64url(random_bytes(32)) + "\n";
    os::File out(fresh, os::OpenAs::new_file, error);
    if (!error) fs::permissions(fresh, fs::perms::owner_read | fs::perms::owner_write, error);
    if (!error) error = out.write(text.data(), text.size());
    if (!error) error = out.close();
    // Without this, the name may outlive a cut of the power, and what it names may not.
    if (!error) error = sync_to_disk(fresh);
    if (!error) fs::rename(fresh, file, error);
    if (!error) error = sync_to_disk(files);
    const std::string reason = error.message();
    if (error)
      fs::remove(fresh, error), fail(ErrorCode::io, "{}: cannot write it: {}", file.string(), reason);
  }
  constexpr auto kOthers = fs::perms::group_all | fs::perms::others_all;
  check((fs::status(file, error).permissions() & kOthers) == fs::perms::none || error, ErrorCode::corrupt,
        "{}: others may read this secret; remove the file, and a new one is made", file.string());
  std::string text = read_text_file(file, 4096);
  while (text.ends_with("\n")) text.pop_back();
  const std::optional<std::string> secret = from_base64url(text);
  check(secret && secret->size() >= 32, ErrorCode::corrupt,
        "{}: it is cut short; remove the file, and a new one is made", file.string());
  return *secret;
}

std::string Tickets::issue(const http::Caller& caller, int64_t now_s) {
  const std::lock_guard lock(mutex_);
  std::erase_if(issued_, [&](const auto& one) { return one.second.until_s <= now_s; });
  check(issued_.size() < most_, ErrorCode::unsupported,
        "too many tickets wait to be used; try again in a minute");
  const std::string ticket = "tt-" + to_base64url(random_bytes(32));
  issued_[hash_of(ticket)] = {caller, now_s + seconds_};
  return ticket;
}

std::optional<http::Caller> Tickets::take(const std::string& ticket, int64_t now_s) {
  const std::lock_guard lock(mutex_);
  const auto found = issued_.find(hash_of(ticket));
  if (found == issued_.end()) return std::nullopt;
  const Issued issued = std::move(found->second);
  issued_.erase(found);
  if (issued.until_s <= now_s) return std::nullopt;
  return issued.caller;
}

}  // namespace tachy::web_api
