// Reads a tokenizer.json in one pass: model.vocab, which is nearly all of the file, straight into a table,
// and everything else into an ordinary JSON value.
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

// Throws Error{corrupt} naming `file` and the byte offset: malformed JSON, nesting or sizes beyond the
// limits, pieces that are not [string, finite number], a vocabulary given twice; Error{unsupported} for one
// that is no array (not a unigram model).
TokenizerFile read_tokenizer_json(std::string_view bytes, std::string_view file);

// The number that serde_json (and so the `tokenizers` library) reads from a decimal text: faster than exact,
// sometimes off by one unit in the last place. Equal sums of scores must stay equal here, too.
double serde_number(std::string_view text);

}  // namespace tachy::text
