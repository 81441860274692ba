// The values that a field of a request or of an engine's options may hold, and a single wording for values
// that are not allowed. A message names a field in backticks, as its struct does (`steps`), for all callers:
// of the library, of a server, and of the command line. A front end replaces it by its own spelling
// (set_spelling: --steps).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/error.h"

namespace tachy {

// The numbers from `least` to `most`.
struct Range {
  double least = 0, most = 0;
  bool above = false;     // `least` itself is not allowed
  const char* zero = "";  // what 0 means, if it is not just a number: "off"

  bool holds(double value) const { return (above ? value > least : value >= least) && value <= most; }
  std::string text() const;  // "1 to 1000", "above 0 to 100", "0 (off) to 1"
};

inline constexpr Range kThreadsRange{.least = 0, .most = 1024, .zero = "all"};  // for every `threads`
inline constexpr Range kRanksRange{.least = 1, .most = 16};                     // for `ranks`

using Choices = std::vector<std::string_view>;

// "cpu or cuda", "none, safe, aggressive or extreme".
std::string text_of(const Choices& choices);

// Throws invalid_argument: "`steps`: expected 1 to 1000, got 0".
template <class Number>
void check_range(std::string_view field, Number value, const Range& range) {
  require(range.holds(static_cast<double>(value)), "`{}`: expected {}, got {}", field, range.text(), value);
}
// Throws invalid_argument: "`rng`: expected cpu or cuda, got 'tpu'".
void check_choice(std::string_view field, std::string_view value, const Choices& choices);

// The values that a field may hold. With monostate any value is allowed, or the field's owner checks it
// elsewhere.
using Allowed = std::variant<std::monostate, Range, Choices>;

inline void check_allowed(std::string_view field, const std::string& value, const Allowed& allowed) {
  if (const auto* choices = std::get_if<Choices>(&allowed)) check_choice(field, value, *choices);
}
template <class Number>
void check_allowed(std::string_view field, Number value, const Allowed& allowed) {
  if (const auto* range = std::get_if<Range>(&allowed)) check_range(field, value, *range);
}

// Returns the entry with that name in a table of fields, or null.
template <class Entry>
const Entry* find_field(const std::vector<Entry>& table, std::string_view name) {
  for (const Entry& entry : table)
    if (entry.name == name) return &entry;
  return nullptr;
}

// Returns the value that a member holds, or null for an optional without one.
template <class T>
const T* value_in(const T& member) {
  return &member;
}
template <class T>
const T* value_in(const std::optional<T>& member) {
  return member ? &*member : nullptr;
}

// Throws invalid_argument for the first member of the struct whose value its entry in the table does not
// allow.
template <class Entry, class Struct>
void check_members(const std::vector<Entry>& table, const Struct& values) {
  for (const Entry& entry : table)
    std::visit(
        [&](auto member) {
          const auto* value = value_in(values.*member);
          if constexpr (!std::is_same_v<decltype(value), const std::vector<std::string>*>)
            if (value) check_allowed(entry.name, *value, entry.allowed);
        },
        entry.member);
}

// Returns a front end's word for a field, or "" for a field that it does not know. It is set once, before
// anything else runs. Lines on stderr use it (base/log.h); a front end calls spelled() for everything else
// that it prints.
using Spelling = std::string_view (*)(std::string_view field);
void set_spelling(Spelling spelling);

// Returns the text with the front end's word in place of each field in backticks, or unchanged if no spelling
// was set.
std::string spelled(std::string_view text);

}  // namespace tachy
