// Cleans prompts as Wan's pipelines do before the tokenizer: ftfy's text fixes, HTML references undone twice,
// white space collapsed and trimmed (spec: ftfy.fix_text -> unescape x2 -> strip -> \s+ to ' ' -> strip).
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

// Throws Error{invalid_argument} naming the byte offset when `utf8` is not valid UTF-8 or exceeds 16 MiB. It
// does not log, and allocates no more than a small multiple of the input.
CleanResult clean_prompt_checked(std::string_view utf8);

// The usual call: clean_prompt_checked(), and a warning in the log when mojibake is suspected.
std::string clean_prompt(std::string_view utf8);

}  // namespace tachy
