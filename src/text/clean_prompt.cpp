// Cleans prompts: first text_fixes, then HTML references twice, then white space, all in UTF-32 as in Python.
#include "text/clean_prompt.h"

#include "base/error.h"
#include "base/log.h"
#include "text/html_unescape.h"
#include "text/text_fixes.h"
#include "text/utf8.h"

namespace tachy {
namespace {

constexpr size_t kMaxPromptBytes = 16u << 20;

// Trims, and turns each run of white space into one space.
std::u32string collapse_spaces(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  bool pending = false;
  for (char32_t c : text) {
    if (text::is_python_space(c)) {
      pending = !out.empty();
      continue;
    }
    if (pending) out += U' ';
    pending = false;
    out += c;
  }
  return out;
}

}  // namespace

CleanResult clean_prompt_checked(std::string_view utf8) {
  require(utf8.size() <= kMaxPromptBytes, "prompt: expected at most {} bytes, got {}", kMaxPromptBytes,
          utf8.size());
  text::require_utf8(utf8, "prompt");
  CleanResult result;
  std::u32string fixed = text::fix_text(text::to_utf32(utf8), result.mojibake_suspected);
  fixed = text::html_unescape(text::html_unescape(fixed));
  result.text = text::to_utf8(collapse_spaces(fixed));
  return result;
}

std::string clean_prompt(std::string_view utf8) {
  CleanResult result = clean_prompt_checked(utf8);
  if (result.mojibake_suspected)
    warn(
        "prompt: parts look like UTF-8 that was read as Windows-1252 or Latin-1; they are used as they are. "
        "Save the prompt as UTF-8. Text: {}",
        result.text.size() > 200 ? result.text.substr(0, result.text.rfind(' ', 200)) : result.text);
  return std::move(result.text);
}

}  // namespace tachy
