// Normalizer steps as the `tokenizers` library defines them.
#include "text/normalizer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/charsmap.h"
#include "text/json_fields.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace tachy::text {
namespace {

constexpr size_t kMaxNormalizers = 64, kMaxReplacement = 4096;
constexpr size_t kMaxGrown = 64u << 20;  // the limit for a hostile Replace

template <class F>
class Step final : public NormalizerStep {
 public:
  explicit Step(F body) : body_(std::move(body)) {}
  std::string apply(std::string_view valid, bool& front_lost) const override {
    return body_(valid, front_lost);
  }

 private:
  F body_;
};

template <class F>
std::shared_ptr<const NormalizerStep> make_step(F body) {
  return std::make_shared<Step<F>>(std::move(body));
}

// Keeps the characters that `keep` accepts, and changes them by `map`.
template <class Keep, class Map>
std::string filter(std::string_view valid, bool& front_lost, Keep keep, Map map) {
  std::string out;
  for (size_t at = 0; at < valid.size();) {
    const char32_t c = next_char(valid, at);
    if (keep(c))
      append_utf8(out, map(c));
    else
      front_lost |= out.empty();
  }
  return out;
}

std::string strip(std::string_view valid, bool left, bool right, bool& front_lost) {
  size_t begin = 0, end = valid.size(), kept = 0;
  bool seen = false;
  for (size_t at = 0; at < valid.size();) {
    const size_t start = at;
    if (is_white_space(next_char(valid, at))) continue;
    if (!seen) begin = start;
    seen = true;
    kept = at;
  }
  if (!seen) begin = kept = valid.size();
  if (!left) begin = 0;
  if (right) end = seen ? kept : begin;
  front_lost |= begin > 0;
  return std::string(valid.substr(begin, end > begin ? end - begin : 0));
}

std::string replace(std::string_view valid, const Regex& pattern, const std::string& content,
                    bool& front_lost) {
  std::string out;
  size_t done = 0;
  while (auto found = pattern.find(valid, done)) {
    const auto [begin, end] = *found;
    out += valid.substr(done, begin - done);
    out += content;
    // The library aligns a replacement with the last character that it replaces.
    if (begin == 0) front_lost |= content.empty() || char_length(static_cast<unsigned char>(valid[0])) < end;
    done = end;
    require(out.size() <= kMaxGrown, "tokenizer: a Replace step grows the text beyond {} bytes", kMaxGrown);
  }
  out += valid.substr(done);
  return out;
}

bool nmt_keeps(char32_t c) {
  return !((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F);
}

char32_t nmt_map(char32_t c) {
  const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  return space ? U' ' : c;
}

void add_step(const nlohmann::json& section, const std::string& where, int depth,
              std::vector<std::shared_ptr<const NormalizerStep>>& steps) {
  check(depth <= 8 && steps.size() < kMaxNormalizers, ErrorCode::corrupt,
        "{}: too many or too deeply nested steps", where);
  if (section.is_null()) return;
  const std::string type = string_field(section, "type", where);
  const std::string inside = where + " (" + type + ")";
  if (type == "Sequence") {
    for (const auto& step : array_field(section, "normalizers", inside))
      add_step(step, where, depth + 1, steps);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    const Form form = type == "NFC"    ? Form::nfc
                      : type == "NFD"  ? Form::nfd
                      : type == "NFKC" ? Form::nfkc
                                       : Form::nfkd;
    steps.push_back(make_step([form](std::string_view t, bool&) { return normalize(t, form); }));
  } else if (type == "Lowercase") {
    steps.push_back(make_step([](std::string_view t, bool&) { return lowercase(t); }));
  } else if (type == "Nmt") {
    steps.push_back(
        make_step([](std::string_view t, bool& lost) { return filter(t, lost, nmt_keeps, nmt_map); }));
  } else if (type == "StripAccents") {
    steps.push_back(make_step([](std::string_view t, bool& lost) {
      return filter(
          t, lost, [](char32_t c) { return !is_mark(c); }, [](char32_t c) { return c; });
    }));
  } else if (type == "Strip") {
    const bool left = bool_field(section, "strip_left", inside),
               right = bool_field(section, "strip_right", inside);
    steps.push_back(
        make_step([left, right](std::string_view t, bool& lost) { return strip(t, left, right, lost); }));
  } else if (type == "Prepend") {
    const std::string text = string_field(section, "prepend", inside, kMaxReplacement);
    steps.push_back(make_step(
        [text](std::string_view t, bool&) { return t.empty() ? std::string() : text + std::string(t); }));
  } else if (type == "Replace") {
    const auto& pattern = object_field(section, "pattern", inside);
    const std::string content = string_field(section, "content", inside, kMaxReplacement);
    const bool regex = pattern.contains("Regex");
    const std::string text = string_field(pattern, regex ? "Regex" : "String", inside, kMaxReplacement);
    check(!text.empty(), ErrorCode::unsupported, "{}: an empty pattern is not supported", inside);
    const Regex compiled = regex ? Regex::compile(text, inside) : Regex::literal(text);
    steps.push_back(make_step(
        [compiled, content](std::string_view t, bool& lost) { return replace(t, compiled, content, lost); }));
  } else if (type == "Precompiled") {
    const std::string map = string_field(section, "precompiled_charsmap", inside, 16u << 20);
    if (map.empty()) return;
    auto charsmap = std::make_shared<const Charsmap>(Charsmap::parse_base64(map, inside));
    steps.push_back(make_step([charsmap](std::string_view t, bool&) { return charsmap->normalize(t); }));
  } else {
    fail(ErrorCode::unsupported, "{}: the normalizer type '{}' is not supported", where, type);
  }
}

}  // namespace

Normalizer Normalizer::from_json(const nlohmann::json& section, std::string_view file) {
  Normalizer result;
  add_step(section, std::string(file) + ": normalizer", 0, result.steps_);
  return result;
}

std::string Normalizer::apply(std::string_view valid, bool& front_lost) const {
  std::string text(valid);
  for (const auto& step : steps_) text = step->apply(text, front_lost);
  return text;
}

}  // namespace tachy::text
