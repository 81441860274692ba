// The vocabulary of a SentencePiece unigram model as plain values, for files other than spiece.model that
// contain one. weights/ finds it in a file's header, and text/ makes a tokenizer from it. It is not validated
// here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tachy {

struct Vocabulary {
  std::vector<std::string_view> pieces;  // views into the file
  std::vector<float> scores;             // one for each piece
  std::vector<int64_t> types;            // in precompiled form; empty if there is none
  std::string_view charsmap;             // in precompiled form; may be empty
  bool add_space_prefix = true, remove_extra_whitespaces = true;
  std::optional<int64_t> eos_id, pad_id;  // ids of control pieces; if not given, those of </s> and <pad>
};

}  // namespace tachy
