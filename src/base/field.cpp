#include "base/field.h"

#include <algorithm>

namespace tachy {
namespace {

Spelling g_spelling = nullptr;

}  // namespace

std::string Range::text() const {
  if (*zero && least == 0) return fmt::format("0 ({}) to {}", zero, most);
  return fmt::format("{}{} to {}", above ? "above " : "", least, most);
}

std::string text_of(const Choices& choices) {
  std::string out;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) out += i + 1 == choices.size() ? " or " : ", ";
    out += choices[i];
  }
  return out;
}

void check_choice(std::string_view field, std::string_view value, const Choices& choices) {
  const bool known = std::find(choices.begin(), choices.end(), value) != choices.end();
  require(known, "`{}`: expected {}, got '{}'", field, text_of(choices), value);
}

void set_spelling(Spelling spelling) { g_spelling = spelling; }

std::string spelled(std::string_view text) {
  std::string out;
  while (g_spelling) {
    const size_t open = text.find('`'), close = open == text.npos ? open : text.find('`', open + 1);
    if (close == text.npos) break;
    const std::string_view own = g_spelling(text.substr(open + 1, close - open - 1));
    out += text.substr(0, open);
    // A backtick that closes no known field may open the next one.
    out += own.empty() ? text.substr(open, 1) : own;
    text.remove_prefix(own.empty() ? open + 1 : close + 1);
  }
  return out += text;
}

}  // namespace tachy
