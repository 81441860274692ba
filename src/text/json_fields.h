// Typed access to the fields of a JSON object. A wrong or missing field throws Error{corrupt} with its place.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json_text.h"

namespace tachy::text {

inline const nlohmann::json& field(const nlohmann::json& object, const char* key, std::string_view where) {
  check(object.is_object(), ErrorCode::corrupt, "{}: expected an object, got {}", where, object.type_name());
  const auto at = object.find(key);
  check(at != object.end(), ErrorCode::corrupt, "{}: '{}' is missing", where, key);
  return *at;
}

inline std::string string_field(const nlohmann::json& object, const char* key, std::string_view where,
                                size_t max_bytes = 256) {
  const auto& value = field(object, key, where);
  check(value.is_string(), ErrorCode::corrupt, "{}: '{}' should be a string, is {}", where, key,
        value.type_name());
  const auto& text = value.get_ref<const std::string&>();
  check(text.size() <= max_bytes, ErrorCode::corrupt, "{}: '{}' has {} bytes, more than {}", where, key,
        text.size(), max_bytes);
  return text;
}

inline bool bool_field(const nlohmann::json& object, const char* key, std::string_view where) {
  const auto& value = field(object, key, where);
  check(value.is_boolean(), ErrorCode::corrupt, "{}: '{}' should be true or false, is {}", where, key,
        value.type_name());
  return value.get<bool>();
}

inline int64_t id_of(const nlohmann::json& value, const char* key, std::string_view where) {
  check(value.is_number_unsigned() && value.get<uint64_t>() < (1u << 30), ErrorCode::corrupt,
        "{}: '{}' should be a token id, is {}", where, key,
        value.is_number() ? json_line(value) : std::string(value.type_name()));
  return value.get<int64_t>();
}

inline const nlohmann::json& array_field(const nlohmann::json& object, const char* key,
                                         std::string_view where) {
  const auto& value = field(object, key, where);
  check(value.is_array(), ErrorCode::corrupt, "{}: '{}' should be an array, is {}", where, key,
        value.type_name());
  return value;
}

inline const nlohmann::json& object_field(const nlohmann::json& object, const char* key,
                                          std::string_view where) {
  const auto& value = field(object, key, where);
  check(value.is_object(), ErrorCode::corrupt, "{}: '{}' should be an object, is {}", where, key,
        value.type_name());
  return value;
}

}  // namespace tachy::text
