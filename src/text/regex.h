// Regular expressions of tokenizer.json files. They use Oniguruma with the syntax that `tokenizers` itself
// uses, so a pattern has the same meaning here and there.
//
// A pattern may come from a hostile file, so the work of one search, the memory of its stack and the depth of
// a pattern are limited. A pattern that matches the empty text is refused.
//
// Patterns of Python's `re` module, which PEFT's adapters contain, are another dialect: see python().
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
  // Throws Error{unsupported} with `where`, the pattern and what is wrong with it.
  static Regex compile(std::string_view pattern, std::string_view where);
  static Regex literal(std::string_view text);
  // Compiles Python's syntax, for matches_start() only; the empty text may match. A pattern that Python
  // refuses or that Oniguruma does not support throws the same Error.
  static Regex python(std::string_view pattern, std::string_view where);

  // Returns the begin and the end of the leftmost match in valid UTF-8 that begins at `from` or later. Many
  // threads may call it. Throws Error{unsupported} if the search takes too long.
  std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t from) const;

  // Says whether a match begins at the start of the text, as re.match does. Returns nothing if this takes
  // more than `most_retries` steps of backtracking. Many threads may call it.
  std::optional<bool> matches_start(std::string_view text, unsigned long most_retries) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
  std::string literal_;  // a plain text, which needs no Oniguruma
};

}  // namespace tachy::text
