#include "session/prompts.h"

#include "base/log.h"
#include "catalog/open_tokenizer.h"
#include "cuda/gpu_facts.h"
#include "ops/features.h"
#include "text/clean_prompt.h"
#include "text/utf8.h"
#include "weights/quote.h"

namespace tachy {

namespace {

constexpr size_t kMostBytes = 500;  // largest size of the text that a warning quotes

// Returns the first word of a text, or its first characters if spaces do not separate words.
std::string_view first_word(std::string_view text) {
  constexpr size_t kMostCharacters = 24;
  size_t end = 0;
  for (size_t n = 0; end < text.size() && text[end] != ' ' && n < kMostCharacters; ++n)
    end += text::char_length(static_cast<unsigned char>(text[end]));
  return text.substr(0, end);
}

// Returns the beginning of a prompt, by which prompts with the same ending can be told apart.
std::string beginning(std::string_view text) {
  constexpr size_t kWords = 5;
  size_t end = first_word(text).size();
  for (size_t n = 1; n < kWords && end < text.size() && text[end] == ' '; ++n)
    end += 1 + first_word(text.substr(end + 1)).size();
  return end < text.size() ? std::string(text.substr(0, end)) + "…" : std::string(text);
}

void warn_of(const DroppedTokens& d, std::string_view text, int kept) {
  const std::string word(first_word(d.words));
  warn(
      "`{}`: the last {} of the {} tokens of {} are dropped, from {} on{}: the model reads {} and an end "
      "token. Prompts that differ only in what is dropped give the same video",
      d.field, d.dropped, d.tokens, in_quotes(beginning(text), kMostBytes), in_quotes(word),
      word == d.words ? "" : fmt::format(" ({})", in_quotes(d.words, kMostBytes)), kept);
}

}  // namespace

TokenIds prompt_tokens(const Tokenizer& tokenizer, const char* field, const std::string& prompt,
                       int max_tokens, DroppedTokens* dropped) {
  return naming(fmt::format("`{}`", field), [&] {
    const std::string text = clean_prompt(prompt);
    TokenIds tokens = encode_padded(tokenizer, text, max_tokens);
    if (tokens.dropped == 0) return tokens;
    const DroppedTokens what{.field = field,
                             .tokens = max_tokens - 1 + tokens.dropped,
                             .dropped = tokens.dropped,
                             .words = dropped_words(tokenizer, text, max_tokens)};
    warn_of(what, text, max_tokens - 1);
    if (dropped) *dropped = what;
    return tokens;
  });
}

std::vector<int64_t> prompt_ids(const Tokenizer& tokenizer, const char* field, const std::string& prompt,
                                int max_tokens, DroppedTokens* dropped) {
  TokenIds tokens = prompt_tokens(tokenizer, field, prompt, max_tokens, dropped);
  tokens.ids.resize(static_cast<size_t>(tokens.length()));
  return tokens.ids;
}

PromptReader::PromptReader(const ModelBundle& model, const std::string& cache_folder) : model_(model) {
  if (!cache_folder.empty()) cache_.emplace(cache_folder);
}

std::shared_ptr<const Tokenizer> PromptReader::tokenizer() {
  const std::lock_guard lock(mutex_);
  if (!tokenizer_) tokenizer_ = open_tokenizer(model_);
  return tokenizer_;
}

void PromptReader::release() {
  const std::lock_guard lock(mutex_);
  tokenizer_.reset();
}

// The key holds everything that an embedding's bits depend on.
TextCache::Key PromptReader::key(const std::vector<int64_t>& ids, const Precision& p, cuda::Gpu* gpu) const {
  std::string how = program_identity() + "; " + ops::describe_arithmetic();
  how += fmt::format("; products {}{}", p.compute == Compute::bf16 ? "bf16" : "f32",
                     p.definitions ? ", definitions" : "");
  if (gpu) {
    const cuda::GpuInfo& g = gpu->info();
    how += fmt::format("; {} {}, driver {}, CUDA {}, activations {}", g.name, g.capability(), g.driver,
                       g.runtime, dtype_name(p.activation));
    if (p.products == Products::tf32) how += ", products tf32";
    for (const auto& [name, version] : cuda::vendor_libraries(*gpu))
      how += fmt::format("; {} {}", name, version);
  }
  return {encoder_fingerprint(model_), how, ids, model_.text.d_model};
}

Prompts PromptReader::read(const ResolvedRequest& r, const Precision& precision, cuda::Gpu* gpu,
                           bool own_encoder) {
  const auto words = tokenizer();
  Prompts p;
  const auto ids = [&](const char* field, const std::string& text) {
    DroppedTokens dropped;
    std::vector<int64_t> out = prompt_ids(*words, field, text, r.request.max_text_tokens, &dropped);
    if (dropped.dropped > 0) p.dropped.push_back(std::move(dropped));
    return out;
  };
  p.positive = ids("prompt", r.request.prompt);
  if (r.guided) p.negative = ids("negative_prompt", *r.request.negative_prompt);
  if (!cache_ || !own_encoder) return p;
  p.positive_key = key(p.positive, precision, gpu);
  p.positive_text = cache_->find(*p.positive_key).value_or(std::vector<float>());
  if (!r.guided) return p;
  p.negative_key = key(p.negative, precision, gpu);
  p.negative_text = cache_->find(*p.negative_key).value_or(std::vector<float>());
  return p;
}

}  // namespace tachy
