// Metaspace and WhitespaceSplit.
#include "text/pre_tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace tachy::text {

constexpr size_t kMaxSplits = 16;

void PreTokenizer::add(const nlohmann::json& section, const std::string& where, int depth) {
  check(depth <= 8 && steps_.size() < kMaxSplits, ErrorCode::corrupt,
        "{}: too many or too deeply nested steps", where);
  if (section.is_null()) return;
  const std::string type = string_field(section, "type", where);
  if (type == "Sequence") {
    for (const auto& step : array_field(section, "pretokenizers", where)) add(step, where, depth + 1);
    return;
  }
  Step step;
  if (type == "Metaspace") {
    step.metaspace = true;
    step.replacement = string_field(section, "replacement", where, 4);
    check(!step.replacement.empty() &&
              char_length(static_cast<unsigned char>(step.replacement[0])) == step.replacement.size(),
          ErrorCode::corrupt, "{}: Metaspace's replacement should be one character", where);
    const std::string scheme = section.contains("prepend_scheme")
                                   ? string_field(section, "prepend_scheme", where)
                                   : std::string("always");
    check(scheme == "always" || scheme == "first" || scheme == "never", ErrorCode::corrupt,
          "{}: prepend_scheme should be always, first or never, is '{}'", where, scheme);
    step.prepend = scheme == "always" ? Prepend::always : scheme == "first" ? Prepend::first : Prepend::never;
    // Files of older releases have add_prefix_space instead.
    const auto old = section.find("add_prefix_space");
    if (old != section.end() && !old->is_null() && !bool_field(section, "add_prefix_space", where)) {
      check(scheme == "never" || !section.contains("prepend_scheme"), ErrorCode::corrupt,
            "{}: add_prefix_space and prepend_scheme contradict each other", where);
      step.prepend = Prepend::never;
    }
    const auto split = section.find("split");
    if (split != section.end() && !split->is_null()) step.split = bool_field(section, "split", where);
  } else if (type != "WhitespaceSplit") {
    fail(ErrorCode::unsupported, "{}: the pre-tokenizer type '{}' is not supported", where, type);
  }
  steps_.push_back(std::move(step));
}

PreTokenizer PreTokenizer::from_json(const nlohmann::json& section, std::string_view file) {
  PreTokenizer result;
  result.add(section, std::string(file) + ": pre_tokenizer", 0);
  return result;
}

void PreTokenizer::metaspace(const Step& step, Split&& split, std::vector<Split>& out) {
  const std::string& mark = step.replacement;
  std::string text;
  text.reserve(split.text.size() + mark.size());
  for (char c : split.text) c == ' ' ? text += mark : text += c;
  const bool prepend = step.prepend == Prepend::always || (step.prepend == Prepend::first && split.at_front);
  if (prepend && !text.starts_with(mark)) text.insert(0, mark);
  for (size_t at = 0; at < text.size();) {
    size_t end = step.split ? text.find(mark, at + 1) : text.npos;
    // A match cannot begin inside a character: UTF-8 sequences never overlap.
    if (end == text.npos) end = text.size();
    out.push_back({text.substr(at, end - at), -1, split.at_front && at == 0});
    at = end;
  }
}

void PreTokenizer::whitespace(Split&& split, std::vector<Split>& out) {
  const std::string_view text = split.text;
  size_t begin = 0;
  for (size_t at = 0; at <= text.size();) {
    size_t next = at;
    const bool space = at == text.size() || is_white_space(next_char(text, next));
    if (space && at > begin)
      out.push_back({std::string(text.substr(begin, at - begin)), -1, split.at_front && begin == 0});
    if (at == text.size()) return;
    if (space) begin = next;
    at = next;
  }
}

void PreTokenizer::apply(std::vector<Split>& splits) const {
  for (const Step& step : steps_) {
    std::vector<Split> out;
    out.reserve(splits.size());
    for (Split& split : splits) {
      if (split.id >= 0)
        out.push_back(std::move(split));
      else if (step.metaspace)
        metaspace(step, std::move(split), out);
      else
        whitespace(std::move(split), out);
    }
    splits = std::move(out);
  }
}

}  // namespace tachy::text
