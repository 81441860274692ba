// Changes a text as SentencePiece does before it looks for pieces. It applies the character map (at each
// place the longest key counts; user-defined pieces stay as they are), removes white space at both ends, and
// makes repeated white space one space. Then it writes a mark U+2581 for every space, and one more in front
// (or at the end).
#pragma once

#include <string>
#include <string_view>

#include "text/spiece_file.h"

namespace tachy::text {

class SpieceNormalizer {
 public:
  explicit SpieceNormalizer(const SpieceFile& file);

  std::string apply(std::string_view valid) const;

 private:
  struct Prefix {
    std::string_view becomes;
    size_t length;  // number of bytes that it replaces
  };
  Prefix next(std::string_view text) const;

  std::optional<Charsmap> charsmap_;
  PieceTable user_defined_;
  PieceIndex index_;  // index of user_defined_
  std::string_view space_;
  bool add_dummy_prefix_, remove_extra_, as_suffix_;
};

}  // namespace tachy::text
