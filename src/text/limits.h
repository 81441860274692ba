// The requirements of every tokenizer for a text.
#pragma once

#include <cstddef>
#include <string_view>

namespace tachy::text {

inline constexpr size_t kMaxTextBytes = 4u << 20;

// Throws Error{invalid_argument} for a text that is too long or not UTF-8.
void require_text(std::string_view text);

}  // namespace tachy::text
