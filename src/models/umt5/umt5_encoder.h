// umT5 text encoder (the original: google/umt5-xxl; transformers' UMT5EncoderModel):
//   h = Emb[ids];  each layer:  h += Attn(RMS(h)) · Wo;  b = RMS(h);
//                               h += (gelu_tanh(b·W_gate) ⊙ (b·W_up)) · W_down
// Scores are NOT divided by sqrt(d_kv), and each layer has its own table of relative position biases.
#pragma once

#include <memory>
#include <vector>

#include "models/umt5/umt5_config.h"
#include "nn/embedding.h"
#include "nn/encoder_layer.h"
#include "nn/linear_registry.h"

namespace tachy {

class Umt5Encoder {
 public:
  // The tensors' names are those of UMT5EncoderModel, and the embedding is shared.weight.
  Umt5Encoder(const Scope& scope, const Umt5Config& config, nn::ParamStore& store);

  const Umt5Config& config() const { return config_; }
  const nn::LinearRegistry& linears() const { return *linears_; }

  // Encodes ids [B, L] i64 → out [B, L, d_model] f32. mask [B, L] i64 is 1 for a token and 0 for padding; if
  // it is undefined, all are tokens. ids and mask are on the host. Rows of padding are computed too, as in
  // the reference; they attend only to the real tokens.
  void forward(const Tensor& ids, const Tensor& mask, const Tensor& out, Stream& stream) const;

 private:
  struct Layer {
    nn::EncoderLayer encoder;
    Tensor position_bias;  // [buckets, heads]
  };

  Layer load_layer(const Scope& scope, nn::ParamStore& store) const;
  void embed(const Tensor& ids, const Tensor& h, Stream& stream) const;

  Umt5Config config_;
  Precision precision_;  // the precision that the weights were made for
  nn::Embedding embedding_;
  std::vector<Layer> layers_;
  std::shared_ptr<runtime::BlockStream> streamed_;  // null if all layers stay where they are
  nn::Norm final_norm_;
  std::shared_ptr<const nn::LinearRegistry> linears_;
  std::shared_ptr<const void> mapping_;
};

// Returns the bucket of a relative position (key − query) in T5's bidirectional scheme.
int64_t relative_position_bucket(int64_t relative, int64_t num_buckets, int64_t max_distance);

}  // namespace tachy
