// SentencePiece's precompiled character map: normalization rules as a byte trie and a pool of replacements.
//
//   u32 trie_bytes | trie_bytes/4 units of u32 | replacements, each ended by a zero byte
//
// A unit of the double array holds its label (bits 0-7), "has a leaf child" (bit 8), and the offset to its
// children (bits 10-30, shifted left by 8 when bit 9 is set); a leaf holds a position in the pool. The text
// is processed by grapheme clusters: a cluster of fewer than six bytes is looked up as a whole, otherwise
// each character by itself. The shortest key that begins the bytes decides. This is the rule of the
// `tokenizers` library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tachy::text {

// Throws Error{corrupt} naming `where`.
std::string decode_base64(std::string_view text, std::string_view where);

class Charsmap {
 public:
  // Throws Error{corrupt} naming `where`. It proves that every path of the trie stays inside the array.
  static Charsmap parse(std::string_view bytes, std::string_view where);
  static Charsmap parse_base64(std::string_view base64, std::string_view where);

  std::string normalize(std::string_view valid) const;

  // Returns the length of the longest key that begins `text`, and its replacement: the rule of
  // libsentencepiece.
  std::optional<std::pair<size_t, std::string_view>> longest(std::string_view text) const;

 private:
  std::optional<std::string_view> lookup(std::string_view key) const;
  std::vector<uint32_t> units_;
  std::string pool_;
};

}  // namespace tachy::text
