// The tokenizer of a spiece.model, through libsentencepiece.
#pragma once

#include <memory>
#include <string_view>

#include "text/tokenizer.h"

namespace tachy::text {

std::unique_ptr<Tokenizer> read_spiece_tokenizer(std::string_view bytes, std::string_view name);

// Throws Error{corrupt} or Error{unsupported} unless `bytes` is a SentencePiece unigram model that the
// library can be trusted with: it checks little itself and would read outside a forged character map.
void check_spiece(std::string_view bytes, std::string_view name);

}  // namespace tachy::text
