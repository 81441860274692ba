# json.hpp defines the literal "…"_json as an inline function, and GCC instantiates the whole parser for it in each file that
# includes the header, whether or not the file has such a literal: 0.4 s a file, a minute of the first build. Nothing here has
# one, so a copy of the header is put in front of the original in which that function calls another that nobody defines. A
# header that lacks the line is copied as it is.
get_target_property(json_folders nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
find_file(TACHY_JSON_HEADER nlohmann/json.hpp HINTS ${json_folders})
set(json_copy ${PROJECT_BINARY_DIR}/json_header)
if(TACHY_JSON_HEADER)
  file(READ "${TACHY_JSON_HEADER}" text)
  string(REPLACE "return nlohmann::json::parse(s, s + n);"
    "nlohmann::json parsed_literal(const char*, std::size_t); return parsed_literal(s, n);" text "${text}")
  file(CONFIGURE OUTPUT ${json_copy}/nlohmann/json.hpp CONTENT "${text}" @ONLY)
endif()
