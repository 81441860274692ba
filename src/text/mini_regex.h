// MiniRegex: the small part of regular expressions that tokenizer.json files use in Replace steps, such as "
// {2,}" or "\s+": a sequence of characters, escapes, classes and dots, each with a greedy quantifier. Groups,
// alternatives, anchors, lazy or possessive quantifiers and patterns that match nothing are refused by name.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tachy::text {

class MiniRegex {
 public:
  // Throws Error{unsupported} naming `where` and the pattern.
  static MiniRegex compile(std::string_view pattern, std::string_view where);
  static MiniRegex literal(std::string_view text);

  // The leftmost match at or behind `from`: its begin and end.
  std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t from) const;

 private:
  struct Range {
    char32_t first, last;
  };
  struct Atom {
    std::vector<Range> ranges;
    bool space = false, digit = false, word = false;  // \s \d \w
    bool negated = false;
    size_t least = 1, most = 1;
    bool takes(char32_t c) const;
  };
  bool match(std::string_view text, size_t atom, size_t at, size_t& end, size_t& budget) const;
  std::vector<Atom> atoms_;
  std::string literal_;  // a plain text is searched as one
};

}  // namespace tachy::text
