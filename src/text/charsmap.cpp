// Reads, checks and applies a precompiled character map.
#include "text/charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "base/error.h"
#include "text/utf8.h"

namespace tachy::text {
namespace {

constexpr size_t kMaxBytes = 16u << 20;
constexpr int kMaxNested = 32;
constexpr size_t kMaxWholeCluster = 6;  // clusters below this many bytes are looked up whole

uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xFFu); }
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1u) != 0; }
uint32_t value_of(uint32_t unit) { return unit & ~(1u << 31); }

}  // namespace

std::string decode_base64(std::string_view text, std::string_view where) {
  auto value = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  check(text.size() % 4 == 0, ErrorCode::corrupt, "{}: base64 of {} characters is not a multiple of four",
        where, text.size());
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const int padding = last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
    uint32_t bits = 0;
    for (int k = 0; k < 4; ++k) {
      const int v = k >= 4 - padding ? 0 : value(text[i + static_cast<size_t>(k)]);
      check(v >= 0, ErrorCode::corrupt, "{}: not base64 at character {}", where, i + static_cast<size_t>(k));
      bits = bits << 6 | static_cast<uint32_t>(v);
    }
    for (int k = 0; k < 3 - padding; ++k) out += static_cast<char>(bits >> (16 - 8 * k) & 0xFF);
  }
  return out;
}

Charsmap Charsmap::parse_base64(std::string_view base64, std::string_view where) {
  check(base64.size() <= kMaxBytes, ErrorCode::corrupt, "{}: expected at most {} characters, got {}", where,
        kMaxBytes, base64.size());
  return parse(decode_base64(base64, where), where);
}

Charsmap Charsmap::parse(std::string_view bytes, std::string_view where) {
  check(bytes.size() > 4 && bytes.size() <= kMaxBytes, ErrorCode::corrupt,
        "{}: expected 5 to {} bytes, got {}", where, kMaxBytes, bytes.size());
  uint32_t trie_bytes = 0;
  std::memcpy(&trie_bytes, bytes.data(), 4);
  check(trie_bytes % 4 == 0 && trie_bytes >= 1024 && trie_bytes <= bytes.size() - 4, ErrorCode::corrupt,
        "{}: the trie claims {} of {} bytes", where, trie_bytes, bytes.size() - 4);
  Charsmap map;
  map.units_.resize(trie_bytes / 4);
  std::memcpy(map.units_.data(), bytes.data() + 4, trie_bytes);
  map.pool_ = bytes.substr(4 + trie_bytes);
  check(find_invalid_utf8(map.pool_) == kValid, ErrorCode::corrupt, "{}: replacements are not UTF-8", where);
  check(map.pool_.empty() || map.pool_.back() == '\0', ErrorCode::corrupt,
        "{}: the last replacement has no end", where);

  // Visit every node, because lookups do not check bounds, and libsentencepiece has room for only kMaxNested
  // keys at the beginning of one text. `most` is the largest number of keys on any path to a node's children.
  const auto& units = map.units_;
  constexpr uint8_t kUnseen = 0xFF;
  std::vector<uint8_t> most(units.size(), kUnseen);
  std::vector<uint32_t> open;
  auto enter = [&](uint32_t position, uint8_t keys) {
    const uint32_t base = position ^ offset_of(units[position]);
    check((base | 0xFFu) < units.size(), ErrorCode::corrupt, "{}: a trie node points outside the trie",
          where);
    if (position != 0 && has_leaf(units[position])) {
      const uint32_t at = value_of(units[base]);
      check(at < map.pool_.size() && (static_cast<unsigned char>(map.pool_[at]) & 0xC0) != 0x80,
            ErrorCode::corrupt, "{}: a trie leaf points to byte {} of {} replacement bytes", where, at,
            map.pool_.size());
      check(++keys <= kMaxNested, ErrorCode::corrupt, "{}: more than {} keys begin one another", where,
            kMaxNested);
    }
    if (most[base] != kUnseen && most[base] >= keys) return;
    most[base] = keys;
    open.push_back(base);
  };
  enter(0, 0);
  while (!open.empty()) {
    const uint32_t base = open.back();
    open.pop_back();
    for (uint32_t c = 1; c < 256; ++c)
      if (label_of(units[base ^ c]) == c) enter(base ^ c, most[base]);
  }
  return map;
}

std::optional<std::string_view> Charsmap::lookup(std::string_view key) const {
  uint32_t node = offset_of(units_[0]);
  for (char ch : key) {
    const auto c = static_cast<unsigned char>(ch);
    if (c == 0) break;
    node ^= c;
    const uint32_t unit = units_[node];
    if (label_of(unit) != c) return std::nullopt;
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const uint32_t at = value_of(units_[node]);
    return std::string_view(pool_).substr(at, pool_.find('\0', at) - at);
  }
  return std::nullopt;
}

std::optional<std::pair<size_t, std::string_view>> Charsmap::longest(std::string_view text) const {
  std::optional<std::pair<size_t, std::string_view>> found;
  uint32_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0) break;
    node ^= c;
    const uint32_t unit = units_[node];
    if (label_of(unit) != c) break;
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const uint32_t at = value_of(units_[node]);
    found = {i + 1, std::string_view(pool_).substr(at, pool_.find('\0', at) - at)};
  }
  return found;
}

std::string Charsmap::normalize(std::string_view valid) const {
  std::string out;
  out.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) {
    // Find the end of one grapheme cluster.
    size_t end = at;
    char32_t previous = next_char(valid, end);
    utf8proc_int32_t state = 0;
    while (end < valid.size()) {
      size_t next = end;
      const char32_t c = next_char(valid, next);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous),
                                           static_cast<utf8proc_int32_t>(c), &state))
        break;
      previous = c;
      end = next;
    }
    const std::string_view cluster = valid.substr(at, end - at);
    at = end;
    if (cluster.size() < kMaxWholeCluster) {
      if (auto whole = lookup(cluster)) {
        out += *whole;
        continue;
      }
    }
    for (size_t i = 0; i < cluster.size();) {
      const size_t length = char_length(static_cast<unsigned char>(cluster[i]));
      const std::string_view character = cluster.substr(i, length);
      out += lookup(character).value_or(character);
      i += length;
    }
  }
  return out;
}

}  // namespace tachy::text
