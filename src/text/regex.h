// Regular expressions of tokenizer.json files, through Oniguruma: `tokenizers` itself uses that library with
// the same syntax, so a pattern has the same meaning here and there.
//
// A pattern may come from a hostile file, so the work of one search, the memory of its stack and the depth of
// a pattern are limited. A pattern that matches the empty text is refused.
//
// Patterns of Python's `re` module (PEFT's, in adapters) are another dialect: see python().
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
  // Takes Python's syntax, for matches_start() only; the empty text may match. A pattern that Python refuses
  // or that Oniguruma does not support is an Error, as above.
  static Regex python(std::string_view pattern, std::string_view where);

  // Returns the begin and the end of the leftmost match in valid UTF-8 that begins at `from` or later. May be
  // called from many threads. Throws Error{unsupported} if the search takes too long.
  std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t from) const;

  // Says whether a match begins at the start of the text, like re.match; returns nothing if that takes more
  // than `most_retries` steps of backtracking. May be called from many threads.
  std::optional<bool> matches_start(std::string_view text, unsigned long most_retries) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
  std::string literal_;  // a plain text, which is found without Oniguruma
};

}  // namespace tachy::text
