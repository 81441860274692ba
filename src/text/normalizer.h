// The "normalizer" section of a tokenizer.json: a list of steps from text to text.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tachy::text {

class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // Sets `front_lost` if characters at the very front were removed: a Metaspace with prepend_scheme "first"
  // needs to know whether a piece of text still begins where the input began.
  virtual std::string apply(std::string_view valid, bool& front_lost) const = 0;
};

class Normalizer {
 public:
  // Accepts null, Sequence, Replace (String or Regex), Strip, StripAccents, Prepend, Lowercase, NFC, NFD,
  // NFKC, NFKD, Nmt and Precompiled. Throws Error{unsupported}, with `file` and the type, for anything else.
  static Normalizer from_json(const nlohmann::json& section, std::string_view file);

  bool empty() const { return steps_.empty(); }
  std::string apply(std::string_view valid, bool& front_lost) const;

 private:
  std::vector<std::shared_ptr<const NormalizerStep>> steps_;
};

}  // namespace tachy::text
