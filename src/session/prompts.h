// A request's prompts as token ids, and what the text cache holds for them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/gpu.h"
#include "request/request.h"
#include "session/text_cache.h"
#include "tensor/precision.h"
#include "text/tokenizer.h"

namespace tachy {

struct Prompts {
  std::vector<int64_t> positive, negative;                   // ids, with the end token and without padding
  std::vector<float> positive_text, negative_text;           // from the text cache; empty: must be encoded
  std::optional<TextCache::Key> positive_key, negative_key;  // their keys in the text cache
  std::vector<DroppedTokens> dropped;                        // from either prompt, if there are any
  bool encodes(bool guided) const { return positive_text.empty() || (guided && negative_text.empty()); }
};

// Returns the padded token ids of a prompt. Warns of text for which there is no room, and reports it in
// `dropped`; `field` names the prompt: "prompt".
TokenIds prompt_tokens(const Tokenizer& tokenizer, const char* field, const std::string& prompt,
                       int max_tokens, DroppedTokens* dropped = nullptr);
// Returns a prompt's ids without padding, including the end token.
std::vector<int64_t> prompt_ids(const Tokenizer& tokenizer, const char* field, const std::string& prompt,
                                int max_tokens, DroppedTokens* dropped = nullptr);

// May be called from several threads.
class PromptReader {
 public:
  // cache_folder is the text cache's folder, or empty for no cache. The `model` must outlive the reader.
  PromptReader(const ModelBundle& model, const std::string& cache_folder);

  // `gpu` is where the text would be encoded; null means on the CPU. own_encoder says whether the text is
  // encoded with the model's own weights, to which the text cache is limited; it is false if adapters change
  // them.
  Prompts read(const ResolvedRequest& request, const Precision& precision, cuda::Gpu* gpu,
               bool own_encoder = true);
  void release();  // frees the tokenizer until it is needed again

  const TextCache* cache() const { return cache_ ? &*cache_ : nullptr; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer();
  TextCache::Key key(const std::vector<int64_t>& ids, const Precision& precision, cuda::Gpu* gpu) const;

  const ModelBundle& model_;
  std::optional<TextCache> cache_;
  std::mutex mutex_;
  std::shared_ptr<const Tokenizer> tokenizer_;  // loaded with the first prompt: umT5's takes 0.15 s to read
};

}  // namespace tachy
