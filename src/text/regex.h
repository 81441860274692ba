// Regular expressions of tokenizer.json files, through Oniguruma: the library that `tokenizers` itself uses,
// with the same syntax, so that a pattern means here what it means there.
//
// A pattern may come from a hostile file, so the work of one search, the memory of its stack and the depth of
// a pattern are limited. A pattern that matches the empty text is refused.
//
// Patterns of Python's `re` module (PEFT's, in adapters) are a dialect of their own: python().
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tachy::text {

class Regex {
 public:
  // Throws Error{unsupported} naming `where`, the pattern and what is wrong with it.
  static Regex compile(std::string_view pattern, std::string_view where);
  static Regex literal(std::string_view text);
  // In Python's syntax, for matches_start() alone; the empty text may match. What Python refuses or Oniguruma
  // cannot do is an Error, as above.
  static Regex python(std::string_view pattern, std::string_view where);

  // The leftmost match in valid UTF-8 at or behind `from`: its begin and end. May be called from many threads.
  // Throws Error{unsupported} where the search takes too long.
  std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t from) const;

  // Whether a match begins where the text does, as re.match has it; nothing when that takes more than `most_retries`
  // steps back. May be called from many threads.
  std::optional<bool> matches_start(std::string_view text, unsigned long most_retries) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
  std::string literal_;  // a plain text is searched as one
};

}  // namespace tachy::text
