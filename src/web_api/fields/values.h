// One value of a request: from JSON, where a number is a number, or from a part of a multipart body, where everything
// is text. All functions throw ApiError (invalid_value) that names the field as the caller spelt it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "base/field.h"

namespace tachy::web_api {

struct Value {
  std::string param;  // the field as the caller spelt it
  nlohmann::json value;
  bool typed = true;       // JSON; otherwise a text may stand for a number, a list or an object
  bool from_file = false;  // `value` is {"file": index} of Fields::files
};

inline constexpr size_t kMostPromptCharacters = 100'000;
inline constexpr size_t kMostTextCharacters = 1000;  // of any text but a prompt
inline constexpr size_t kMostListed = 64;

[[noreturn]] void refuse(const Value& value, const std::string& expected);  // "expected …, got …"

std::string text_in(const Value& value, size_t most_characters = kMostTextCharacters);
double number_in(const Value& value, const Range& range);
// A whole number. JSON's 5.0 is one, too.
int64_t whole_number_in(const Value& value, const Range& range);
// The seed's numbers, to 2^64-1; -1 is `drawn`.
uint64_t seed_in(const Value& value, bool& drawn);
std::string choice_in(const Value& value, const Choices& choices);
// A list of texts, one text, or a list as JSON in a text.
std::vector<std::string> texts_in(const Value& value);

// Returns a value that is a JSON text, of a field that is a list or an object, as what the text says; others as they are.
Value unwrapped(const Value& value);

// Reads the value into the field's member, and returns it with its type, as it is kept with the job.
nlohmann::json set_member(VideoRequest& request, const RequestField& field, const Value& value);

// Returns the beginning of a text that somebody sent, for a message.
std::string shown(std::string_view text);

}  // namespace tachy::web_api
