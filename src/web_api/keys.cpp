#include "web_api/keys.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "base/base64.h"
#include "base/env.h"
#include "base/error.h"
#include "base/os/file.h"
#include "base/random_bytes.h"
#include "base/text_file.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBegin = "tk-";

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
  });
}

// Returns the 32 bytes of 64 hexadecimal digits.
std::optional<Digest> hash_in(std::string_view text) {
  if (text.size() != 64) return std::nullopt;
  Digest out{};
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
    const size_t digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    out[i / 2] = static_cast<uint8_t>(out[i / 2] << 4 | digit);
  }
  return out;
}

std::string hex_of(const Digest& hash) {
  std::string out;
  for (const uint8_t byte : hash) out += fmt::format("{:02x}", byte);
  return out;
}

// A file that others may write is no use: they could give themselves a key.
void check_mode(const fs::path& file) {
  std::error_code error;
  const fs::perms mode = fs::status(file, error).permissions();
  require(error || (mode & (fs::perms::group_write | fs::perms::others_write)) == fs::perms::none,
          "{}: others may write this file, and so give themselves a key; take that right away (chmod go-w)",
          file.string());
}

std::vector<std::string> words_of(std::string_view line) {
  std::string text(line.substr(0, line.find('#')));
  std::replace(text.begin(), text.end(), '\t', ' ');
  return split(text, ' ');
}

}  // namespace

Keys Keys::read(const fs::path& file) {
  const std::string text = read_text_file(file, 4 << 20);
  check_mode(file);
  Keys out;
  size_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    const auto wrong = [&](bool fine, std::string_view what) {
      require(fine, "{}: line {}: {}", file.string(), number, what);
    };
    wrong(is_name(words[0]), "expected a name of 1 to 64 letters, digits, '.', '-' and '_' at its beginning");
    wrong(words.size() >= 2, "expected NAME SHA256-OF-KEY [priority] [admin]");
    wrong(!words[1].starts_with(kBegin), "it has a key itself where its SHA-256 belongs");
    const std::optional<Digest> hash = hash_in(words[1]);
    wrong(hash.has_value(), "the second word is not a SHA-256, which has 64 hexadecimal digits");
    Key key{.caller = {.key = words[0]}, .hash = *hash};
    for (size_t i = 2; i < words.size(); ++i) {
      bool* const right = words[i] == "priority" ? &key.caller.priority
                          : words[i] == "admin"  ? &key.caller.admin
                                                 : nullptr;
      wrong(right != nullptr, "'" + words[i] + "' is not a right; there are 'priority' and 'admin'");
      *right = true;
    }
    for (const Key& other : out.keys_) {
      wrong(other.caller.key != key.caller.key, "the name '" + words[0] + "' is there twice");
      wrong(other.hash != key.hash, "'" + words[0] + "' has the key of '" + other.caller.key + "'");
    }
    out.keys_.push_back(std::move(key));
  }
  require(!out.keys_.empty(), "{}: it has no key, so nobody could use the server", file.string());
  return out;
}

std::optional<http::Caller> Keys::find(std::string_view key) const {
  const Digest hash = sha256(key);
  const Key* found = nullptr;
  for (const Key& one : keys_)  // to the end in any case
    if (equal_in_constant_time(bytes_of(one.hash), bytes_of(hash))) found = &one;
  if (!found) return std::nullopt;
  return found->caller;
}

std::vector<http::Caller> Keys::holders() const {
  std::vector<http::Caller> out;
  for (const Key& key : keys_) out.push_back(key.caller);
  return out;
}

std::string new_key(const fs::path& file, const std::string& name) {
  require(is_name(name), "the name of a key has 1 to 64 letters, digits, '.', '-' and '_', got '{}'", name);
  std::error_code error;
  std::string text;
  if (fs::exists(file, error)) {
    text = read_text_file(file, 4 << 20);
    check_mode(file);
    for (const std::string_view line : lines_of(text)) {
      const std::vector<std::string> words = words_of(line);
      require(words.empty() || words[0] != name, "{}: '{}' has a key already", file.string(), name);
    }
  }
  const std::string key = std::string(kBegin) + to_base64url(random_bytes(32));
  if (!text.empty() && !text.ends_with("\n")) text += '\n';
  text += fmt::format("{} {}\n", name, hex_of(sha256(key)));
  // The file is replaced in one step, so that a server that starts now reads the old or the new one.
  const fs::path fresh = file.string() + "." + random_hex(8) + ".new";
  os::File out(fresh, os::OpenAs::new_file, error);
  const auto written = [&](std::error_code failed) {
    if (!failed) return;
    fs::remove(fresh, error);
    fail(ErrorCode::io, "{}: cannot write it: {}", file.string(), failed.message());
  };
  written(error);
  fs::permissions(fresh, fs::perms::owner_read | fs::perms::owner_write, error);
  written(error);
  written(out.write(text.data(), text.size()));
  const std::error_code synced = out.sync();
  written(synced == std::errc::invalid_argument ? std::error_code() : synced);
  written(out.close());
  fs::rename(fresh, fs::exists(file, error) ? fs::canonical(file) : file, error);
  written(error);
  return key;
}

std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return "";
  for (size_t i = 0; i < kScheme.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return "";
  authorization.remove_prefix(kScheme.size());
  while (authorization.starts_with(" ")) authorization.remove_prefix(1);
  while (authorization.ends_with(" ")) authorization.remove_suffix(1);
  return authorization;
}

}  // namespace tachy::web_api
