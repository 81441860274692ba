// A request's prompts as token ids, and what the text cache knows of them.
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
  std::vector<float> positive_text, negative_text;           // from the text cache; empty: to be encoded
  std::optional<TextCache::Key> positive_key, negative_key;  // in it
  std::vector<DroppedTokens> dropped;                        // of either, where there are any
  bool encodes(bool guided) const { return positive_text.empty() || (guided && negative_text.empty()); }
};

// Token ids of a prompt, padded. Warns of what there is no room for, and tells it in `dropped`; `field` names the
// prompt: "prompt".
TokenIds prompt_tokens(const Tokenizer& tokenizer, const char* field, const std::string& prompt,
                       int max_tokens, DroppedTokens* dropped = nullptr);
// Its ids without padding, the end token included.
std::vector<int64_t> prompt_ids(const Tokenizer& tokenizer, const char* field, const std::string& prompt,
                                int max_tokens, DroppedTokens* dropped = nullptr);

// Callable from several threads.
class PromptReader {
 public:
  // cache_folder: of the text cache; empty: none. `model` outlives it.
  PromptReader(const ModelBundle& model, const std::string& cache_folder);

  // gpu: where the text would be encoded; null: on the CPU. own_encoder: by the model's own weights, which the
  // text cache is for; false where adapters change them.
  Prompts read(const ResolvedRequest& request, const Precision& precision, cuda::Gpu* gpu,
               bool own_encoder = true);
  void release();  // the tokenizer, until it is needed again

  const TextCache* cache() const { return cache_ ? &*cache_ : nullptr; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer();
  TextCache::Key key(const std::vector<int64_t>& ids, const Precision& precision, cuda::Gpu* gpu) const;

  const ModelBundle& model_;
  std::optional<TextCache> cache_;
  std::mutex mutex_;
  std::shared_ptr<const Tokenizer> tokenizer_;  // from the first prompt on: umT5's takes 0.15 s to read
};

}  // namespace tachy
