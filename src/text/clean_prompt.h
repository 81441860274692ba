// Cleans prompts before the tokenizer as Wan's pipelines do: ftfy's text fixes, then HTML references undone
// twice, then white space collapsed and trimmed (ftfy.fix_text -> unescape x2 -> strip -> \s+ to ' ' ->
// strip).
//
// There is one deliberate difference: mojibake (text decoded with the wrong encoding) is reported, not
// repaired. The repair guesses among ten encodings, and a prompt that was typed correctly never needs it.
#pragma once

#include <string>
#include <string_view>

namespace tachy {

struct CleanResult {
  std::string text;
  bool mojibake_suspected = false;
};

// Throws Error{invalid_argument} with the byte offset if `utf8` is not valid UTF-8 or exceeds 16 MiB. It does
// not log, and allocates only a small multiple of the input.
CleanResult clean_prompt_checked(std::string_view utf8);

// Calls clean_prompt_checked(), and logs a warning if it suspects mojibake.
std::string clean_prompt(std::string_view utf8);

}  // namespace tachy
