// SentencePiece's precompiled character map: normalization rules as a byte trie, and their replacements.
//
//   u32 trie_bytes | trie_bytes/4 units of u32 | replacements, each ended by a zero byte
//
// A unit of the double array contains its label (bits 0-7), a bit for "has a leaf child" (bit 8), and the
// offset to its children (bits 10-30, shifted left by 8 if bit 9 is set); a leaf contains a position in the
// replacements. The text is processed by grapheme clusters: a cluster of fewer than six bytes is looked up as
// a whole, otherwise each of its characters is. The shortest key with which the bytes begin decides. This is
// the rule of the `tokenizers` library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tachy::text {

// Throws Error{corrupt}, which names `where`.
std::string decode_base64(std::string_view text, std::string_view where);

class Charsmap {
 public:
  // Checks that no path of the trie leaves the array. Throws Error{corrupt}, which names `where`.
  static Charsmap parse(std::string_view bytes, std::string_view where);
  static Charsmap parse_base64(std::string_view base64, std::string_view where);

  std::string normalize(std::string_view valid) const;

  // Returns the length of the longest key with which `text` begins, and its replacement. This is the rule of
  // libsentencepiece.
  std::optional<std::pair<size_t, std::string_view>> longest(std::string_view text) const;

 private:
  std::optional<std::string_view> lookup(std::string_view key) const;
  std::vector<uint32_t> units_;
  std::string pool_;
};

}  // namespace tachy::text
