#include "request/parallel.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/field.h"

namespace tachy {
namespace {

constexpr const char* kExpected = "`parallel`: expected auto, or cfg=A,ulysses=B,ring=C with whole numbers";

// Reads one part, such as ulysses=4, into its member, which must not have been given before.
void take(std::string_view part, Parallel& to, const std::string& text) {
  const size_t equals = std::min(part.find('='), part.size());
  const std::string_view name = part.substr(0, equals);
  const std::string_view number = part.substr(std::min(equals + 1, part.size()));
  const std::pair<std::string_view, int*> members[] = {
      {"cfg", &to.cfg}, {"ulysses", &to.ulysses}, {"ring", &to.ring}};
  const auto* member = std::ranges::find(members, name, &std::pair<std::string_view, int*>::first);
  require(member != std::end(members) && equals < part.size(), "{}, got '{}' in '{}'", kExpected, part, text);
  require(*member->second == 0, "{}, got {} twice in '{}'", kExpected, name, text);
  int value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  require(error == std::errc() && end == number.data() + number.size(), "{}, got '{}' in '{}'", kExpected,
          part, text);
  require(kRanksRange.holds(value), "`parallel`: expected {} of {}, got {}", kRanksRange.text(), name, value);
  *member->second = value;
}

}  // namespace

std::string Parallel::text() const {
  return automatic() ? "auto" : fmt::format("cfg={},ulysses={},ring={}", cfg, ulysses, ring);
}

Parallel parse_parallel(const std::string& text, int ranks, const char* field) {
  if (text == "auto") return {};
  Parallel out;
  for (std::string_view rest = text;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    take(rest.substr(0, comma), out, text);
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  for (int* member : {&out.cfg, &out.ulysses, &out.ring}) *member = std::max(*member, 1);
  require(ranks == 0 || out.ranks() == ranks, "`parallel`: {} is for {} ranks, but `{}` {} {}", text,
          out.ranks(), field, field == std::string_view("ranks") ? "is" : "names", ranks);
  return out;
}

}  // namespace tachy
