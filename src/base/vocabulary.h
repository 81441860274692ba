// The vocabulary of a SentencePiece unigram model in plain values, as files other than spiece.model hold it:
// what weights/ finds in a file's header and text/ makes a tokenizer of. Unchecked.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tachy {

struct Vocabulary {
  std::vector<std::string_view> pieces;  // of whoever holds the file
  std::vector<float> scores;             // one a piece
  std::vector<int64_t> types;            // likewise, in SentencePiece's numbers
  std::string_view charsmap;             // precompiled; empty: none
  bool add_space_prefix = true, remove_extra_whitespaces = true;
  std::optional<int64_t> eos_id, pad_id;  // of control pieces; otherwise </s> and <pad>
};

}  // namespace tachy
