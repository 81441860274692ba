// The tokenizer of a spiece.model: the ids that libsentencepiece gives (0.2.3; compared by
// tests/golden/text/compare.py), but one unknown id for a run of characters that the vocabulary lacks, where
// the library would spell them in byte pieces: Wan's text encoder was trained with the former. Only where user-
// defined pieces fit a text in several ways that are equally good may another of them be chosen.
#pragma once

#include <memory>
#include <string_view>

#include "text/tokenizer.h"

namespace tachy::text {

// Throws Error{corrupt} or Error{unsupported} for bytes that are not a sound SentencePiece unigram model.
std::unique_ptr<Tokenizer> read_spiece_tokenizer(std::string_view bytes, std::string_view name);

// The same tokenizer from the pieces that another file holds.
std::unique_ptr<Tokenizer> make_spiece_tokenizer(const Vocabulary& from, std::string_view name);

}  // namespace tachy::text
