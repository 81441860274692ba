// Makes the tokenizer of a tokenizer.json (Unigram models).
#pragma once

#include <memory>
#include <string_view>

#include "text/tokenizer.h"

namespace tachy::text {

std::unique_ptr<Tokenizer> read_json_tokenizer(std::string_view bytes, std::string_view name);

}  // namespace tachy::text
