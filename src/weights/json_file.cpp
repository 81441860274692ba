#include "weights/json_file.h"

#include <cmath>

#include "base/error.h"
#include "base/foreign_file.h"
#include "base/json_text.h"
#include "base/text_file.h"
#include "weights/mapped_file.h"
#include "weights/quote.h"

namespace tachy {
namespace {

// Python writes -Infinity, Infinity and NaN, which are not JSON (diffusers does so for DPM-Solver's
// lambda_min_clipped). Nothing here reads such a value, so it is replaced by a text of the same length, which
// getters of numbers refuse. The equal length keeps offsets in errors right.
std::string with_python_numbers_as_texts(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kNumbers[] = {
      {"-Infinity", "\"-inf\"   "}, {"Infinity", "\"inf\"   "}, {"NaN", "\"\" "}};
  std::string out(text);
  bool in_string = false;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == '"') in_string = !in_string;
    if (in_string) {
      if (out[i] == '\\') ++i;
      continue;
    }
    for (const auto& [number, instead] : kNumbers)
      if (out.compare(i, number.size(), number) == 0) {
        out.replace(i, number.size(), instead);
        i += number.size() - 1;
        break;
      }
  }
  return out;
}

// Returns nullptr if the key is absent or null.
const nlohmann::json* value_of(const nlohmann::json& j, std::string_view key) {
  if (!j.is_object()) return nullptr;
  const auto it = j.find(key);
  return it == j.end() || it->is_null() ? nullptr : &*it;
}

std::string shown(const nlohmann::json& value) { return in_quotes(json_line(value), 60); }

// Accepts an integer, or a float with a whole value (other tools write 16.0 into configs).
bool as_int(const nlohmann::json& value, int64_t lo, int64_t hi, int64_t& out) {
  if (value.is_number_unsigned()) {
    const auto u = value.get<uint64_t>();
    if (u > static_cast<uint64_t>(INT64_MAX)) return false;
    out = static_cast<int64_t>(u);
  } else if (value.is_number_integer()) {
    out = value.get<int64_t>();
  } else if (value.is_number_float()) {
    const double d = value.get<double>();
    if (!(std::abs(d) <= 9e15) || d != std::floor(d)) return false;
    out = static_cast<int64_t>(d);
  } else {
    return false;
  }
  return out >= lo && out <= hi;
}

int64_t checked_int(const nlohmann::json& value, std::string_view key, int64_t lo, int64_t hi) {
  int64_t out = 0;
  check(as_int(value, lo, hi, out), ErrorCode::corrupt,
        "config: {}: expected an integer from {} to {}, got {}", key, lo, hi, shown(value));
  return out;
}

const nlohmann::json* list_of(const nlohmann::json& j, std::string_view key, size_t max_count) {
  const auto* value = value_of(j, key);
  if (!value) return nullptr;
  check(value->is_array() && value->size() <= max_count, ErrorCode::corrupt,
        "config: {}: expected a list of at most {} numbers, got {}", key, max_count, shown(*value));
  return value;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view what, const JsonKeys& keys) {
  const bool python = text.find("Infinity") != text.npos || text.find("NaN") != text.npos;
  auto j = parse_json_text(python ? with_python_numbers_as_texts(text) : text, what, keys);
  check(j.is_object(), ErrorCode::corrupt, "{}: expected a JSON object, got {}", what, j.type_name());
  return j;
}

nlohmann::json read_json(const std::filesystem::path& path, uint64_t max_bytes, const JsonKeys& keys) {
  const MappedFile file(path);
  check(file.size() > 0, ErrorCode::corrupt, "{}: the file is empty", path.string());
  check(file.size() <= max_bytes, ErrorCode::corrupt, "{}: {} bytes of JSON, the limit is {}", path.string(),
        file.size(), max_bytes);
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), static_cast<size_t>(file.size()));
  refuse_foreign(bytes.substr(0, kKindBytes), path, "JSON");
  return parse_json(decode_text(bytes, path.string()), path.string(), keys);
}

int64_t json_int(const nlohmann::json& j, std::string_view key, int64_t fallback, int64_t lo, int64_t hi) {
  const auto* value = value_of(j, key);
  return value ? checked_int(*value, key, lo, hi) : fallback;
}

int64_t json_int(const nlohmann::json& j, std::string_view key, int64_t lo, int64_t hi) {
  const auto* value = value_of(j, key);
  check(value != nullptr, ErrorCode::not_found, "config: {} is missing", key);
  return checked_int(*value, key, lo, hi);
}

double json_double(const nlohmann::json& j, std::string_view key, double fallback, double lo, double hi) {
  const auto* value = value_of(j, key);
  if (!value) return fallback;
  const double d = value->is_number() ? value->get<double>() : std::nan("");
  check(d >= lo && d <= hi, ErrorCode::corrupt, "config: {}: expected a number from {} to {}, got {}", key,
        lo, hi, shown(*value));
  return d;
}

bool json_bool(const nlohmann::json& j, std::string_view key, bool fallback) {
  const auto* value = value_of(j, key);
  if (!value) return fallback;
  check(value->is_boolean(), ErrorCode::corrupt, "config: {}: expected true or false, got {}", key,
        shown(*value));
  return value->get<bool>();
}

std::string json_string(const nlohmann::json& j, std::string_view key, std::string_view fallback) {
  const auto* value = value_of(j, key);
  if (!value) return std::string(fallback);
  check(value->is_string(), ErrorCode::corrupt, "config: {}: expected a string, got {}", key, shown(*value));
  return value->get<std::string>();
}

std::vector<int64_t> json_ints(const nlohmann::json& j, std::string_view key, int64_t lo, int64_t hi,
                               size_t max_count) {
  std::vector<int64_t> out;
  if (const auto* list = list_of(j, key, max_count)) {
    for (const auto& value : *list) out.push_back(checked_int(value, key, lo, hi));
  }
  return out;
}

std::vector<double> json_doubles(const nlohmann::json& j, std::string_view key, size_t max_count) {
  std::vector<double> out;
  if (const auto* list = list_of(j, key, max_count)) {
    for (const auto& value : *list) {
      const double d = value.is_number() ? value.get<double>() : std::nan("");
      check(std::isfinite(d), ErrorCode::corrupt, "config: {}: expected numbers, got {}", key, shown(value));
      out.push_back(d);
    }
  }
  return out;
}

}  // namespace tachy
