// The "pre_tokenizer" section of a tokenizer.json: Metaspace (spaces become a visible mark, one more is put
// in front, and the text is cut before each mark), WhitespaceSplit, and Sequences of these.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"

namespace tachy::text {

class PreTokenizer {
 public:
  // Throws Error{unsupported}, with `file` and the type, for other types than those above.
  static PreTokenizer from_json(const nlohmann::json& section, std::string_view file);

  void apply(std::vector<Split>& splits) const;  // added tokens stay unchanged

 private:
  enum class Prepend { always, first, never };
  struct Step {
    bool metaspace = false;   // if false, it is a WhitespaceSplit
    std::string replacement;  // one character
    Prepend prepend = Prepend::always;
    bool split = true;
  };
  void add(const nlohmann::json& section, const std::string& where, int depth);
  static void metaspace(const Step& step, Split&& split, std::vector<Split>& out);
  static void whitespace(Split&& split, std::vector<Split>& out);
  std::vector<Step> steps_;
};

}  // namespace tachy::text
