// Backtracking over at most kMaxAtoms atoms with a step budget, so that no pattern can hang the reader.
#include "text/mini_regex.h"

#include "base/error.h"
#include "text/utf8.h"

namespace tachy::text {
namespace {

constexpr size_t kMaxAtoms = 32, kMaxRepeat = 100000, kMaxSteps = 50'000'000;
constexpr size_t kNoLimit = static_cast<size_t>(-1);

}  // namespace

bool MiniRegex::Atom::takes(char32_t c) const {
  bool in = (space && is_white_space(c)) || (digit && is_decimal_digit(c)) || (word && is_word_char(c));
  for (size_t i = 0; i < ranges.size() && !in; ++i) in = c >= ranges[i].first && c <= ranges[i].last;
  return in != negated;
}

MiniRegex MiniRegex::literal(std::string_view text) {
  MiniRegex regex;
  regex.literal_ = text;
  return regex;
}

MiniRegex MiniRegex::compile(std::string_view pattern, std::string_view where) {
  const std::u32string p = to_utf32(pattern);
  size_t i = 0;
  auto refuse = [&](std::string_view why) {
    fail(ErrorCode::unsupported, "{}: the regular expression '{}' is not supported: {}", where, pattern, why);
  };
  // An escape behind its backslash: a class into `atom`, or one character.
  auto escape = [&](Atom& atom) -> std::optional<char32_t> {
    if (i == p.size()) refuse("it ends in a backslash");
    const char32_t c = p[i++];
    switch (c) {
      case 's':
        atom.space = true;
        return std::nullopt;
      case 'd':
        atom.digit = true;
        return std::nullopt;
      case 'w':
        atom.word = true;
        return std::nullopt;
      case 'n':
        return U'\n';
      case 't':
        return U'\t';
      case 'r':
        return U'\r';
      case 'f':
        return U'\f';
      case 'v':
        return U'\v';
      default:
        break;
    }
    if (c < 0x80 && (is_word_char(c))) refuse("unknown escape");
    return c;
  };
  auto number = [&](size_t& value) {
    const size_t first = i;
    for (value = 0; i < p.size() && p[i] >= '0' && p[i] <= '9' && value <= kMaxRepeat; ++i)
      value = value * 10 + (p[i] - '0');
    if (value > kMaxRepeat) refuse("repeat count too large");
    return i > first;
  };

  MiniRegex regex;
  while (i < p.size()) {
    Atom atom;
    const char32_t c = p[i++];
    if (c == '\\') {
      if (auto one = escape(atom)) atom.ranges.push_back({*one, *one});
    } else if (c == '.') {
      atom.ranges.push_back({U'\n', U'\n'});
      atom.negated = true;
    } else if (c == '[') {
      if (i < p.size() && p[i] == '^') {
        atom.negated = true;
        ++i;
      }
      bool closed = false;
      while (i < p.size() && !closed) {
        char32_t from = p[i++];
        if (from == ']') {
          closed = true;
          break;
        }
        if (from == '[' || from == '&') refuse("nested classes");
        if (from == '\\') {
          auto one = escape(atom);
          if (!one) continue;
          from = *one;
        }
        char32_t to = from;
        if (i + 1 < p.size() && p[i] == '-' && p[i + 1] != ']') {
          i += 1;
          to = p[i++];
          if (to == '\\' || to == '[' || to < from) refuse("character range");
        }
        atom.ranges.push_back({from, to});
      }
      if (!closed) refuse("'[' is not closed");
      if (atom.ranges.empty() && !atom.space && !atom.digit && !atom.word) refuse("empty class");
    } else if (c == '(' || c == ')' || c == '|' || c == '^' || c == '$' || c == '*' || c == '+' || c == '?' ||
               c == '{' || c == '}' || c == ']') {
      refuse("groups, alternatives and anchors are not");
    } else {
      atom.ranges.push_back({c, c});
    }
    if (i < p.size() && (p[i] == '*' || p[i] == '+' || p[i] == '?' || p[i] == '{')) {
      const char32_t q = p[i++];
      atom.least = q == '+' ? 1 : 0;
      atom.most = q == '?' ? 1 : kNoLimit;
      if (q == '{') {
        const bool low = number(atom.least);
        atom.most = atom.least;
        if (i < p.size() && p[i] == ',') {
          ++i;
          if (!number(atom.most)) atom.most = kNoLimit;
        }
        if (!low || i == p.size() || p[i++] != '}' || atom.most < atom.least) refuse("repeat count");
      }
      if (i < p.size() && (p[i] == '?' || p[i] == '+' || p[i] == '*' || p[i] == '{'))
        refuse("lazy or possessive quantifier");
    }
    regex.atoms_.push_back(std::move(atom));
    if (regex.atoms_.size() > kMaxAtoms) refuse("too long");
  }
  bool consumes = false;
  for (const Atom& atom : regex.atoms_) consumes |= atom.least > 0;
  if (!consumes) refuse("it matches the empty text");
  return regex;
}

bool MiniRegex::match(std::string_view text, size_t k, size_t at, size_t& end, size_t& budget) const {
  if (k == atoms_.size()) {
    end = at;
    return true;
  }
  const Atom& atom = atoms_[k];
  size_t count = 0, here = at;
  while (count < atom.most && here < text.size()) {
    check(budget-- > 1, ErrorCode::unsupported, "tokenizer: a Replace pattern takes too long on this text");
    size_t next = here;
    if (!atom.takes(next_char(text, next))) break;
    here = next;
    ++count;
  }
  if (count < atom.least) return false;
  for (;;) {
    if (match(text, k + 1, here, end, budget)) return true;
    if (count == atom.least) return false;
    check(budget-- > 1, ErrorCode::unsupported, "tokenizer: a Replace pattern takes too long on this text");
    --count;
    do --here;
    while ((static_cast<unsigned char>(text[here]) & 0xC0) == 0x80);
  }
}

std::optional<std::pair<size_t, size_t>> MiniRegex::find(std::string_view text, size_t from) const {
  if (!literal_.empty()) {
    const size_t at = text.find(literal_, from);
    if (at == text.npos) return std::nullopt;
    return std::pair(at, at + literal_.size());
  }
  size_t budget = kMaxSteps;
  for (size_t at = from; at < text.size(); at += char_length(static_cast<unsigned char>(text[at]))) {
    size_t end = at;
    if (match(text, 0, at, end, budget)) return std::pair(at, end);
  }
  return std::nullopt;
}

}  // namespace tachy::text
