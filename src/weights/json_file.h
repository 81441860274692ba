// Reads small JSON files (configs, indices). Size and depth are limited, and errors give the file, the offset
// and the key.
//
// This header includes nlohmann/json.hpp, which takes a second to compile: include it only in .cpp files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"

namespace tachy {

inline constexpr uint64_t kMaxJsonBytes = 64ull << 20;

// Reads a file that people may have edited (base/text_file.h) and that contains an object. Throws not_found,
// io or corrupt ("file: line 3, column 5 (byte 40): reason"). base/json_text.h describes `keys`.
nlohmann::json read_json(const std::filesystem::path& path, uint64_t max_bytes = kMaxJsonBytes,
                         const JsonKeys& keys = {});
// Parses a text in the same way; `what` is its name in errors.
nlohmann::json parse_json(std::string_view text, std::string_view what, const JsonKeys& keys = {});

// These read a value. If the key is absent or null, they return the fallback, and the overloads without a
// fallback throw not_found if it is absent. A wrong type or a value out of range throws corrupt with key and
// value.
int64_t json_int(const nlohmann::json& j, std::string_view key, int64_t fallback, int64_t lo, int64_t hi);
int64_t json_int(const nlohmann::json& j, std::string_view key, int64_t lo, int64_t hi);
double json_double(const nlohmann::json& j, std::string_view key, double fallback, double lo, double hi);
bool json_bool(const nlohmann::json& j, std::string_view key, bool fallback);
std::string json_string(const nlohmann::json& j, std::string_view key, std::string_view fallback);
// These read lists of at most max_count elements; an absent key or null gives an empty list.
std::vector<int64_t> json_ints(const nlohmann::json& j, std::string_view key, int64_t lo, int64_t hi,
                               size_t max_count);
std::vector<double> json_doubles(const nlohmann::json& j, std::string_view key, size_t max_count);

}  // namespace tachy
