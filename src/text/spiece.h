// The tokenizer of a spiece.model. It gives the ids of libsentencepiece 0.2.3 (tests/golden/text/compare.py
// compares them), with one exception: a run of characters that the vocabulary lacks gets a single unknown id.
// The library would spell them in byte pieces, but Wan's text encoder was trained with unknown ids. If
// user-defined pieces fit a text in several equally good ways, the choice may also differ.
#pragma once

#include <memory>
#include <string_view>

#include "text/tokenizer.h"

namespace tachy::text {

// Throws Error{corrupt} or Error{unsupported} for bytes that are not a sound SentencePiece unigram model.
std::unique_ptr<Tokenizer> read_spiece_tokenizer(std::string_view bytes, std::string_view name);

// Makes the same tokenizer from the pieces that another file holds.
std::unique_ptr<Tokenizer> make_spiece_tokenizer(const Vocabulary& from, std::string_view name);

}  // namespace tachy::text
