#include "http/access.h"

#include <algorithm>
#include <cctype>
#include <random>

#include "base/error.h"
#include "base/os/network.h"

namespace tachy::http {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_address(const std::string& text) { return os::ipv4_address(text) || os::is_ipv6_address(text); }

// Turns "name", "name:8190", "[::1]" or "[::1]:8190" into the name alone; returns "" for anything else.
std::string name_of(std::string_view host) {
  std::string_view name = host, port;
  if (host.starts_with("[")) {
    const size_t end = host.find(']');
    if (end == host.npos) return "";
    name = host.substr(1, end - 1);
    port = host.substr(end + 1);
    if (!port.empty() && !port.starts_with(":")) return "";
  } else if (const size_t colon = host.find(':'); colon != host.npos) {
    name = host.substr(0, colon), port = host.substr(colon);
  }
  if (port.size() == 1 || port.size() > 6) return "";
  for (const char c : port.substr(std::min<size_t>(port.size(), 1)))
    if (c < '0' || c > '9') return "";
  return lower(name);
}

}  // namespace

bool is_loopback(std::string_view address) {
  const std::string text = lower(address);
  const auto address_of_four = os::ipv4_address(text);
  return text == "localhost" || text == "::1" || (address_of_four && address_of_four->front() == 127);
}

bool is_token(std::string_view text) {
  return text.size() >= 8 && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                  c == '_';
         });
}

std::string random_token() {
  std::random_device device;  // the system's generator, not a pseudo-random one
  std::string out;
  for (int i = 0; i < 4; ++i) out += fmt::format("{:08x}", static_cast<uint32_t>(device()));
  return out;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

std::string_view query_value(std::string_view target, std::string_view name) {
  const size_t mark = target.find('?');
  if (mark == target.npos) return "";
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
  }
  return "";
}

Access::Access(std::string host, std::string token)
    : host_(lower(host)),
      token_(std::move(token)),
      machine_(lower(os::machine_name())),
      loopback_(is_loopback(host)) {
  require(token_.empty() || is_token(token_),
          "`token`: expected 8 to 128 letters, digits, '-' and '_', got '{}'", token_);
}

bool Access::host_allowed(std::string_view host) const {
  const std::string name = name_of(host);
  if (name.empty()) return false;
  if (is_loopback(name) || name == host_) return true;
  // DNS rebinding needs a name: an address was typed by the visitor.
  return !loopback_ && (is_address(name) || name == machine_ || name == machine_ + ".local");
}

bool Access::origin_allowed(std::string_view origin, std::string_view host) {
  const std::string from = lower(origin), here = lower(host);
  return !here.empty() && (from == "http://" + here || from == "https://" + here);
}

bool Access::token_allowed(std::string_view token) const {
  if (token_.empty()) return true;
  unsigned differs = token.size() != token_.size();
  for (size_t i = 0; i < token_.size(); ++i)
    differs |= static_cast<unsigned char>(token_[i]) ^
               static_cast<unsigned char>(token.empty() ? 0 : token[i % token.size()]);
  return differs == 0;
}

}  // namespace tachy::http
