// Finds added tokens; the rules about words and white space are those of the `tokenizers` library.
#include "text/added_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "text/json_fields.h"
#include "text/utf8.h"

namespace tachy::text {
namespace {

constexpr size_t kMaxTokens = 100000, kMaxContent = 4096;

char32_t char_before(std::string_view text, size_t at, size_t& start) {
  start = at;
  do --start;
  while ((static_cast<unsigned char>(text[start]) & 0xC0) == 0x80);
  size_t next = start;
  return next_char(text, next);
}

bool word_before(std::string_view text, size_t at) {
  size_t start = 0;
  return at > 0 && is_word_char(char_before(text, at, start));
}

bool word_behind(std::string_view text, size_t at) {
  return at < text.size() && is_word_char(next_char(text, at));
}

size_t skip_spaces_back(std::string_view text, size_t at) {
  size_t start = 0;
  while (at > 0 && is_white_space(char_before(text, at, start))) at = start;
  return at;
}

size_t skip_spaces(std::string_view text, size_t at) {
  for (size_t next = at; at < text.size() && is_white_space(next_char(text, next)); at = next) {
  }
  return at;
}

}  // namespace

void AddedTokens::Matcher::add(std::string_view content, uint32_t token) {
  contents.add(content);
  tokens.push_back(token);
}

AddedTokens AddedTokens::from_json(const nlohmann::json& section, const Unigram& model,
                                   const Normalizer& normalizer, std::string_view file) {
  AddedTokens result;
  if (section.is_null()) return result;
  const std::string where = std::string(file) + ": added_tokens";
  check(section.is_array() && section.size() <= kMaxTokens, ErrorCode::corrupt,
        "{}: expected an array of at most {} tokens", where, kMaxTokens);
  std::unordered_map<std::string, size_t> seen;
  auto next_id = static_cast<int64_t>(model.pieces().size());
  for (const auto& item : section) {
    AddedToken token;
    token.content = string_field(item, "content", where, kMaxContent);
    const int64_t id = id_of(field(item, "id", where), "id", where);
    token.single_word = bool_field(item, "single_word", where);
    token.lstrip = bool_field(item, "lstrip", where);
    token.rstrip = bool_field(item, "rstrip", where);
    token.normalized = bool_field(item, "normalized", where);
    bool_field(item, "special", where);
    if (token.content.empty()) continue;
    const auto known = seen.find(token.content);
    if (known != seen.end()) {
      token.id = result.tokens_[known->second].id;
      result.tokens_[known->second] = token;
      continue;
    }
    token.id = model.find(token.content);
    if (token.id < 0) token.id = next_id++;
    if (token.id != id)
      warn(
          "{}: '{}' has id {}, the file says {}; ids of tokens outside the model's vocabulary follow its end",
          where, token.content, token.id, id);
    seen.emplace(token.content, result.tokens_.size());
    result.tokens_.push_back(std::move(token));
  }
  for (uint32_t i = 0; i < result.tokens_.size(); ++i) {
    const AddedToken& token = result.tokens_[i];
    if (!token.normalized) {
      result.raw_.add(token.content, i);
      continue;
    }
    bool front_lost = false;
    const std::string content = normalizer.apply(token.content, front_lost);
    check(!content.empty(), ErrorCode::unsupported, "{}: the normalizer leaves nothing of '{}'", where,
          token.content);
    result.normalized_.add(content, i);
  }
  result.raw_.index.build(result.raw_.contents);
  result.normalized_.index.build(result.normalized_.contents);
  return result;
}

void AddedTokens::cut(const Matcher& matcher, const Split& from, std::vector<Split>& out) const {
  const std::string_view text = from.text;
  size_t done = 0;
  auto put_text = [&](size_t end) {
    if (done < end)
      out.push_back({std::string(text.substr(done, end - done)), -1, from.at_front && done == 0});
  };
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    uint32_t which = 0;
    matcher.index.prefixes(matcher.contents, text.substr(at), [&](size_t l, uint32_t content) {
      length = l;
      which = matcher.tokens[content];
    });
    if (length == 0) {
      at += char_length(static_cast<unsigned char>(text[at]));
      continue;
    }
    const AddedToken& token = tokens_[which];
    size_t start = at, stop = at + length;
    at = stop;
    if (token.single_word && (word_before(text, start) || word_behind(text, stop))) continue;
    if (token.lstrip) start = std::max(skip_spaces_back(text, start), done);
    if (token.rstrip) stop = skip_spaces(text, stop);
    put_text(start);
    out.push_back({{}, token.id, false});
    done = stop;
  }
  put_text(text.size());
}

std::vector<Split> AddedTokens::split(std::string_view text, const Normalizer& normalizer) const {
  std::vector<Split> raw, out;
  if (text.empty()) return out;
  cut(raw_, {std::string(text), -1, true}, raw);
  for (Split& split : raw) {
    if (split.id >= 0) {
      out.push_back(std::move(split));
      continue;
    }
    bool front_lost = false;
    if (!normalizer.empty()) split.text = normalizer.apply(split.text, front_lost);
    split.at_front &= !front_lost;
    cut(normalized_, split, out);
  }
  return out;
}

}  // namespace tachy::text
