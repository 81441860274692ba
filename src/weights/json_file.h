// Small JSON files (configs, indices): size and depth are capped, and errors name file, offset and key.
//
// This header pulls in nlohmann/json.hpp (a second of compile time): include it from .cpp files only.
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

// Reads a file that people may have edited (base/text_file.h). Throws not_found, io or corrupt ("file: line
// 3, column 5 (byte 40): reason"). The top must be an object. For keys see base/json_text.h.
nlohmann::json read_json(const std::filesystem::path& path, uint64_t max_bytes = kMaxJsonBytes,
                         const JsonKeys& keys = {});
// Does the same with a text; `what` names it in errors.
nlohmann::json parse_json(std::string_view text, std::string_view what, const JsonKeys& keys = {});

// Getters. An absent key or null gives the fallback; a wrong type or a value out of range throws corrupt,
// naming key and value. The overloads without a fallback throw not_found when the key is absent.
int64_t json_int(const nlohmann::json& j, std::string_view key, int64_t fallback, int64_t lo, int64_t hi);
int64_t json_int(const nlohmann::json& j, std::string_view key, int64_t lo, int64_t hi);
double json_double(const nlohmann::json& j, std::string_view key, double fallback, double lo, double hi);
bool json_bool(const nlohmann::json& j, std::string_view key, bool fallback);
std::string json_string(const nlohmann::json& j, std::string_view key, std::string_view fallback);
// Lists of at most max_count elements; absent or null gives an empty one.
std::vector<int64_t> json_ints(const nlohmann::json& j, std::string_view key, int64_t lo, int64_t hi,
                               size_t max_count);
std::vector<double> json_doubles(const nlohmann::json& j, std::string_view key, size_t max_count);

}  // namespace tachy
