// tokenizer.json: cuts out added tokens, then applies the normalizer, the pre-tokenizer and the unigram
// model. The post-processor tells which id ends a text. "truncation", "padding" (except for its pad id) and
// "decoder" are ignored.
#include "text/tokenizer_json.h"

#include "base/error.h"
#include "base/log.h"
#include "text/added_tokens.h"
#include "text/json_fields.h"
#include "text/json_reader.h"
#include "text/limits.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/unigram.h"
#include "text/utf8.h"

namespace tachy::text {
namespace {

using nlohmann::json;

const json& section_of(const json& root, const char* key) {
  static const json nothing;
  const auto at = root.find(key);
  return at == root.end() ? nothing : *at;
}

Unigram read_model(TokenizerFile& in, std::string_view file) {
  const json& model = section_of(in.rest, "model");
  check(model.is_object(), ErrorCode::corrupt, "{}: 'model' is missing", file);
  if (model.contains("type")) {
    const std::string type = string_field(model, "type", std::string(file) + ": model");
    check(type == "Unigram", ErrorCode::unsupported, "{}: the model type is '{}'; only Unigram is supported",
          file, type);
  }
  check(!in.scores.empty(), ErrorCode::corrupt,
        "{}: model.vocab is missing or empty. Some versions of transformers save such a file; take the "
        "tokenizer.json of the published model, or remove it so that spiece.model is used",
        file);
  int64_t unk_id = -1;
  const json& unk = section_of(model, "unk_id");
  if (!unk.is_null()) {
    unk_id = id_of(unk, "unk_id", std::string(file) + ": model");
    check(unk_id < static_cast<int64_t>(in.scores.size()), ErrorCode::corrupt,
          "{}: model.unk_id is {}, the vocabulary has {} pieces", file, unk_id, in.scores.size());
  }
  const json& fallback = section_of(model, "byte_fallback");
  check(fallback.is_null() || fallback.is_boolean(), ErrorCode::corrupt,
        "{}: model.byte_fallback should be true or false, is {}", file, fallback.type_name());
  if (fallback.is_boolean() && fallback.get<bool>())
    warn("{}: byte_fallback is ignored: unknown characters become the unknown token, as Wan's models expect",
         file);
  return Unigram(std::move(in.pieces), std::move(in.scores), unk_id);
}

// Returns the id that the post-processor adds after a text, or -1 if it adds none.
int64_t closing_id(const json& section, const std::string& where) {
  if (section.is_null()) return -1;
  const std::string type = string_field(section, "type", where);
  if (type == "Sequence") {
    int64_t id = -1;
    for (const auto& part : array_field(section, "processors", where)) {
      check(part.is_object() && section_of(part, "type") != "Sequence", ErrorCode::corrupt,
            "{}: a Sequence inside a Sequence", where);
      const int64_t one = closing_id(part, where);
      check(one < 0 || id < 0, ErrorCode::unsupported, "{}: two processors add tokens", where);
      id = std::max(id, one);
    }
    return id;
  }
  check(type == "TemplateProcessing", ErrorCode::unsupported, "{}: the type '{}' is not supported", where,
        type);
  int64_t id = -1;
  bool text_seen = false;
  for (const auto& part : array_field(section, "single", where)) {
    if (part.is_object() && part.contains("Sequence")) {
      check(!text_seen, ErrorCode::unsupported, "{}: the template repeats the text", where);
      text_seen = true;
      continue;
    }
    const std::string token = string_field(object_field(part, "SpecialToken", where), "id", where);
    check(text_seen && id < 0, ErrorCode::unsupported,
          "{}: expected one token behind the text and none before it, got '{}'", where, token);
    const json& ids = array_field(
        object_field(object_field(section, "special_tokens", where), token.c_str(), where), "ids", where);
    check(ids.size() == 1, ErrorCode::unsupported, "{}: '{}' stands for {} ids", where, token, ids.size());
    id = id_of(ids[0], "ids", where);
  }
  return id;
}

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(TokenizerFile in, std::string_view file)
      : model_(read_model(in, file)),
        normalizer_(Normalizer::from_json(section_of(in.rest, "normalizer"), file)),
        pre_tokenizer_(PreTokenizer::from_json(section_of(in.rest, "pre_tokenizer"), file)),
        added_(AddedTokens::from_json(section_of(in.rest, "added_tokens"), model_, normalizer_, file)) {
    vocab_size_ = static_cast<int64_t>(model_.pieces().size());
    for (const AddedToken& token : added_.tokens()) vocab_size_ = std::max(vocab_size_, token.id + 1);

    eos_ = closing_id(section_of(in.rest, "post_processor"), std::string(file) + ": post_processor");
    if (eos_ < 0) eos_ = id_of_content("</s>");
    check(eos_ >= 0 && eos_ < vocab_size_, ErrorCode::unsupported,
          "{}: no end token: neither the post-processor nor a piece '</s>' names one of the {} ids", file,
          vocab_size_);
    pad_ = id_of_content("<pad>");
    const json& padding = section_of(in.rest, "padding");
    if (padding.is_object() && padding.contains("pad_id"))
      pad_ = id_of(padding["pad_id"], "pad_id", std::string(file) + ": padding");
    check(pad_ >= 0 && pad_ < vocab_size_, ErrorCode::unsupported,
          "{}: no padding token: neither 'padding' nor a piece '<pad>' names one of the {} ids", file,
          vocab_size_);
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    require_text(text);
    std::vector<Split> splits = added_.split(text, normalizer_);
    pre_tokenizer_.apply(splits);
    std::vector<int32_t> ids;
    for (const Split& split : splits) {
      if (split.id >= 0)
        ids.push_back(static_cast<int32_t>(split.id));
      else
        model_.encode(split.text, ids);
    }
    return ids;
  }

  TokenLayout layout(std::string_view text) const override {
    require_text(text);
    std::vector<Split> splits = added_.split(text, normalizer_);
    pre_tokenizer_.apply(splits);
    TokenLayout out;
    std::vector<int32_t> ids;
    for (const Split& split : splits) {
      const size_t base = out.text.size(), first = out.begins.size();
      if (split.id >= 0) {
        out.begins.push_back(0);
        out.text += piece(static_cast<int>(split.id));
      } else {
        model_.encode(split.text, ids, &out.begins);
        out.text += split.text;
      }
      for (size_t i = first; i < out.begins.size(); ++i) out.begins[i] += base;
    }
    return out;
  }

  int pad_id() const override { return static_cast<int>(pad_); }
  int eos_id() const override { return static_cast<int>(eos_); }
  int unk_id() const override { return static_cast<int>(model_.unk_id()); }
  int vocab_size() const override { return static_cast<int>(vocab_size_); }
  std::string piece(int id) const override {
    if (id >= 0 && static_cast<size_t>(id) < model_.pieces().size())
      return std::string(model_.pieces()[static_cast<size_t>(id)]);
    for (const AddedToken& token : added_.tokens())
      if (token.id == id) return token.content;
    return {};
  }
  std::string_view source() const override { return "tokenizer.json"; }

 private:
  int64_t id_of_content(std::string_view content) const {
    for (const AddedToken& token : added_.tokens())
      if (token.content == content) return token.id;
    return model_.find(content);
  }

  Unigram model_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  AddedTokens added_;
  int64_t pad_ = -1, eos_ = -1, vocab_size_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> read_json_tokenizer(std::string_view bytes, std::string_view name) {
  return std::make_unique<JsonTokenizer>(read_tokenizer_json(bytes, name), name);
}

}  // namespace tachy::text
