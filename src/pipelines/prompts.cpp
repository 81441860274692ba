#include "pipelines/prompts.h"

#include "cuda/gpu_facts.h"
#include "ops/features.h"
#include "text/clean_prompt.h"

namespace tachy {

std::vector<int64_t> prompt_ids(const Tokenizer& tokenizer, const std::string& prompt, int max_tokens) {
  TokenIds tokens = encode_padded(tokenizer, clean_prompt(prompt), max_tokens);
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

// What an embedding's bits depend on.
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
    return naming(field, [&] { return prompt_ids(*words, text, r.request.max_text_tokens); });
  };
  p.positive = ids("`prompt`", r.request.prompt);
  if (r.guided) p.negative = ids("`negative_prompt`", *r.request.negative_prompt);
  if (!cache_ || !own_encoder) return p;
  p.positive_key = key(p.positive, precision, gpu);
  p.positive_text = cache_->find(*p.positive_key).value_or(std::vector<float>());
  if (!r.guided) return p;
  p.negative_key = key(p.negative, precision, gpu);
  p.negative_text = cache_->find(*p.negative_key).value_or(std::vector<float>());
  return p;
}

}  // namespace tachy
