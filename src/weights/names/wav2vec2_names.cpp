// Gives wav2vec2 the names of newer transformers' Wav2Vec2Model, whose weights are normed by a
// parametrization. The prefix "wav2vec2." of whole models (pre-training, CTC) is removed, and weight_g and
// weight_v of older files are renamed.
#include "weights/names/rename.h"

namespace tachy {
namespace {

std::string newer_name(std::string_view name) {
  constexpr std::string_view conv = "encoder.pos_conv_embed.conv.";
  if (name == std::string(conv) + "weight_g") return std::string(conv) + "parametrizations.weight.original0";
  if (name == std::string(conv) + "weight_v") return std::string(conv) + "parametrizations.weight.original1";
  return std::string(name);
}

}  // namespace

std::shared_ptr<TensorSource> wav2vec2_source(const std::shared_ptr<TensorSource>& source) {
  constexpr std::string_view whole[] = {"wav2vec2."};
  return renamed(without_prefix(plain_source(source), whole), newer_name);
}

}  // namespace tachy
