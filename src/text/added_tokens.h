// Added tokens: strings such as "</s>" or "<extra_id_0>" that are cut out of the text before the model gets
// it.
//
// Tokens with normalized=false are looked for in the raw text. The others are looked for, in their own
// normalized form, in the normalized pieces between them. At each place the longest token wins.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/normalizer.h"
#include "text/piece_index.h"
#include "text/unigram.h"

namespace tachy::text {

struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool single_word = false;  // matches only if neither neighbour is a word character
  bool lstrip = false;       // also takes the white space on its left
  bool rstrip = false;       // also takes the white space on its right
  bool normalized = false;
};

// A piece of text that is to become ids: an added token if id >= 0, otherwise a text.
struct Split {
  std::string text;
  int64_t id = -1;
  bool at_front = false;  // its first character is also the first one of the input
};

class AddedTokens {
 public:
  // Reads the "added_tokens" array. A token whose content the model knows gets the model's id, and the others
  // follow the model's last id (as in the library; if the file has another id, there is a warning).
  static AddedTokens from_json(const nlohmann::json& section, const Unigram& model,
                               const Normalizer& normalizer, std::string_view file);

  std::vector<Split> split(std::string_view text, const Normalizer& normalizer) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  struct Matcher {
    PieceTable contents;
    std::vector<uint32_t> tokens;  // content number -> token number
    PieceIndex index;
    void add(std::string_view content, uint32_t token);
  };
  void cut(const Matcher& matcher, const Split& from, std::vector<Split>& out) const;

  std::vector<AddedToken> tokens_;
  Matcher raw_, normalized_;
};

}  // namespace tachy::text
