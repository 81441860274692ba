// Usage: text_lines clean | text_lines encode FOLDER_OR_FILE. Reads one JSON string per line and writes one
// JSON value per line (the cleaned text, or the ids). It is the other half of tests/golden/text/compare.py.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "text/clean_prompt.h"
#include "text/tokenizer.h"

int main(int count, char** arguments) {
  using namespace tachy;
  try {
    set_quiet(true);
    const std::string mode = count > 1 ? arguments[1] : "";
    require((mode == "clean" && count == 2) || (mode == "encode" && count == 3),
            "text_lines: expected 'clean' or 'encode FILE'");
    const auto tokenizer = mode == "encode" ? Tokenizer::open(arguments[2]) : nullptr;
    for (std::string line; std::getline(std::cin, line);) {
      const std::string text = nlohmann::json::parse(line);
      const nlohmann::json out =
          tokenizer ? nlohmann::json(tokenizer->encode(text)) : nlohmann::json(clean_prompt(text));
      std::cout << out.dump(-1, ' ', true) << '\n';
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
