// Reads a tokenizer.json in one pass. model.vocab, which is nearly all of the file, goes straight into a
// table, and the rest becomes an ordinary JSON value.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "text/piece_index.h"

namespace tachy::text {

struct TokenizerFile {
  nlohmann::json rest;  // the file without model.vocab
  bool has_vocab = false;
  PieceTable pieces;
  std::vector<double> scores;
};

// Throws Error{corrupt}, with `file` and the byte offset, for malformed JSON, too much nesting or size,
// pieces that are not [string, finite number], and a second vocabulary. Throws Error{unsupported} for a
// vocabulary that is not an array (so the model is not unigram).
TokenizerFile read_tokenizer_json(std::string_view bytes, std::string_view file);

// Reads a decimal number as serde_json, and so the `tokenizers` library, does: quickly, but sometimes off by
// one unit in the last place. Sums of scores that are equal there must be equal here, too.
double serde_number(std::string_view text);

}  // namespace tachy::text
