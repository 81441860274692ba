#include "web_api/fields/values.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/json_text.h"
#include "base/utf8.h"
#include "base/whole_characters.h"
#include "web_api/api_error.h"
#include "web_api/fields/json_body.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

constexpr size_t kMostShown = 80;

std::string got(const Value& value) {
  if (value.from_file) return "a file";
  if (value.value.is_string()) return "'" + shown(value.value.get_ref<const std::string&>()) + "'";
  if (value.value.is_array()) return "a list";
  if (value.value.is_object()) return "an object";
  return shown(json_line(value.value));
}

[[noreturn]] void wrong(const Value& value, const std::string& message) {
  throw ApiError("invalid_value", fmt::format("`{}`: {}", value.param, message), value.param);
}

// Returns the number that a whole text is.
template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

std::optional<double> number_of(const Value& value) {
  std::optional<double> out;
  if (value.value.is_number()) out = value.value.get<double>();
  if (value.value.is_string() && !value.typed)
    out = parsed<double>(value.value.get_ref<const std::string&>());
  return out && std::isfinite(*out) ? out : std::nullopt;
}

std::string expected_number(const char* kind, const Range& range) {
  return fmt::format("{} ({})", kind, range.text());
}

size_t characters(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

// Returns what a boolean says, also in a multipart body, where the client writes true and false as texts.
std::optional<bool> switched(const Value& value) {
  if (value.value.is_boolean()) return value.value.get<bool>();
  if (value.typed || !(value.value == "true" || value.value == "false")) return std::nullopt;
  return value.value == "true";
}

bool is_switch(const Allowed& allowed) {
  const auto* choices = std::get_if<Choices>(&allowed);
  return choices && *choices == Choices{"on", "off"};
}

json read(std::string& member, const RequestField& field, const Value& value) {
  const std::string_view name = field.name;
  if (name == "prompt" || name == "negative_prompt") {
    member = text_in(value, kMostPromptCharacters);
    if (name == "prompt" && member.find_first_not_of(" \t\r\n") == member.npos)
      wrong(value, "expected what the video should show, got an empty text");
  } else if (const std::optional<bool> on = switched(value); on && is_switch(field.allowed)) {
    member = *on ? "on" : "off";
  } else if (const auto* choices = std::get_if<Choices>(&field.allowed)) {
    member = choice_in(value, *choices);
  } else {
    member = text_in(value);
  }
  return member;
}

json read(int& member, const RequestField& field, const Value& value) {
  constexpr Range kAny{.least = std::numeric_limits<int>::min(), .most = std::numeric_limits<int>::max()};
  const auto* range = std::get_if<Range>(&field.allowed);
  return member = static_cast<int>(whole_number_in(value, range ? *range : kAny));
}

json read(double& member, const RequestField& field, const Value& value) {
  constexpr Range kAny{.least = -1e300, .most = 1e300};
  const auto* range = std::get_if<Range>(&field.allowed);
  return member = number_in(value, range ? *range : kAny);
}

json read(uint64_t& member, const RequestField&, const Value& value) {
  bool drawn = false;
  member = seed_in(value, drawn);
  if (drawn) refuse(value, "a whole number from 0 to 18446744073709551615");
  return member;
}

json read(std::vector<std::string>& member, const RequestField&, const Value& value) {
  return member = texts_in(value);
}

template <class T>
json read(std::optional<T>& member, const RequestField& field, const Value& value) {
  return read(member.emplace(), field, value);
}

}  // namespace

std::string shown(std::string_view text) {
  std::string out(whole_characters(text, kMostShown));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  if (find_invalid_utf8(out) != kValidUtf8)
    for (char& c : out)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  return text.size() > kMostShown ? out + "…" : out;
}

void refuse(const Value& value, const std::string& expected) {
  wrong(value, fmt::format("expected {}, got {}", expected, got(value)));
}

std::string text_in(const Value& value, size_t most_characters) {
  if (!value.value.is_string()) refuse(value, "a text");
  const std::string& text = value.value.get_ref<const std::string&>();
  const size_t count = characters(text);
  if (count > most_characters)
    wrong(value, fmt::format("expected at most {} characters, got {}", most_characters, count));
  return text;
}

double number_in(const Value& value, const Range& range) {
  const std::optional<double> number = number_of(value);
  if (!number || !range.holds(*number)) refuse(value, expected_number("a number", range));
  return *number;
}

int64_t whole_number_in(const Value& value, const Range& range) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const std::optional<double> number = number_of(value);
  const bool whole = number && std::abs(*number) <= kExact && *number == std::trunc(*number);
  if (!whole || !range.holds(*number)) refuse(value, expected_number("a whole number", range));
  return static_cast<int64_t>(*number);
}

uint64_t seed_in(const Value& value, bool& drawn) {
  const json& j = value.value;
  std::optional<uint64_t> seed;
  drawn = false;
  if (j.is_number_unsigned())
    seed = j.get<uint64_t>();
  else if (j.is_number_integer() && j.get<int64_t>() >= 0)
    seed = static_cast<uint64_t>(j.get<int64_t>());
  else if (j.is_number_integer())
    drawn = j.get<int64_t>() == -1;
  else if (j.is_number_float() && j.get<double>() >= 0 && j.get<double>() < 0x1p53)
    seed = static_cast<uint64_t>(whole_number_in(value, {0, 0x1p53}));
  else if (j.is_string() && !value.typed) {
    seed = parsed<uint64_t>(j.get_ref<const std::string&>());
    drawn = j.get_ref<const std::string&>() == "-1";
  }
  if (!seed && !drawn)
    refuse(value, "a whole number from 0 to 18446744073709551615, or -1 for one that is drawn");
  return seed.value_or(0);
}

std::string choice_in(const Value& value, const Choices& choices) {
  const std::string text = text_in(value);
  for (const std::string_view choice : choices)
    if (choice == text) return text;
  refuse(value, text_of(choices));
}

Value unwrapped(const Value& value) {
  if (!value.value.is_string()) return value;
  const std::string& text = value.value.get_ref<const std::string&>();
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos || (text[first] != '[' && text[first] != '{')) return value;
  return {value.param, parse_strict_json(text, fmt::format("`{}`", value.param), value.param)};
}

std::vector<std::string> texts_in(const Value& value) {
  Value list = unwrapped(value);
  if (list.value.is_string()) list.value = json::array({list.value});
  if (!list.value.is_array()) refuse(value, "a list of texts");
  if (list.value.size() > kMostListed)
    wrong(value, fmt::format("expected at most {} texts, got {}", kMostListed, list.value.size()));
  std::vector<std::string> out;
  for (const json& one : list.value) out.push_back(text_in({value.param, one, list.typed}));
  return out;
}

json set_member(VideoRequest& request, const RequestField& field, const Value& value) {
  return std::visit([&](auto member) { return read(request.*member, field, value); }, field.member);
}

}  // namespace tachy::web_api
