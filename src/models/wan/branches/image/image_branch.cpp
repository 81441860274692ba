#include "models/wan/branches/image/image_branch.h"

#include "models/wan/dit.h"
#include "ops/attention/attention.h"

namespace tachy {
namespace {

// Keys and values of a picture's tokens for every block.
struct ImageKeys {
  static constexpr const char* kName = "a picture";
  Tensor k, v;  // [layers, tokens, dim] of the activations' dtype
  std::vector<Tensor> tensors() const { return {k, v}; }
};

class ImageBranch : public WanBranch {
 public:
  explicit ImageBranch(const WanConfig& c) : config_(c), blocks_(static_cast<size_t>(c.num_layers)) {}

  bool load(const Scope& block, int64_t index, nn::ParamStore& store) override {
    const Scope cross = block.sub("attn2");
    const int64_t dim = config_.dim();
    nn::Attention& made = of_block(index);
    made.k = nn::Linear(cross.sub("add_k_proj"), store, dim, dim);
    made.v = nn::Linear(cross.sub("add_v_proj"), store, dim, dim);
    made.norm_k = nn::Norm::rms(cross.sub("norm_added_k"), store, dim, config_.eps);
    made.heads = config_.num_heads, made.head_dim = config_.head_dim;
    return true;
  }

  bool makes_keys(std::string_view layer) const override {
    return layer.ends_with(".attn2.add_k_proj") || layer.ends_with(".attn2.add_v_proj");
  }
  bool takes_codes() const override { return true; }
  const char* needs_all_tokens() const override { return nullptr; }

  void add_context(const WanDit& dit, const WanTokens& tokens, WanContext& context,
                   nn::ParamStore& store) const override {
    if (!tokens.image.defined()) return;
    Stream& stream = store.stream();
    const auto room = [&] {
      return store.allocate(stream.precision.activation,
                            {config_.num_layers, tokens.image.dim(0), config_.dim()});
    };
    ImageKeys made{.k = room(), .v = room()};
    dit.each_block(
        [&](int64_t i) { of_block(i).keys(tokens.image, made.k.select(0, i), made.v.select(0, i), stream); });
    context.more.put(made);
  }

  void beside_text(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q, const Tensor& out,
                   Stream& stream) const override {
    const auto* image = in.contexts[static_cast<size_t>(b)]->more.find<ImageKeys>();
    if (!image) return;
    const nn::Attention& block = of_block(index);
    ops::attention({.q = q,
                    .k = block.by_heads(image->k.select(0, index), 1),
                    .v = block.by_heads(image->v.select(0, index), 1),
                    .scale = WanBlock::score_scale(config_, stream),
                    .accumulate = true,
                    .out = out},
                   stream);
  }

 private:
  nn::Attention& of_block(int64_t index) { return blocks_[static_cast<size_t>(index)]; }
  const nn::Attention& of_block(int64_t index) const { return blocks_[static_cast<size_t>(index)]; }

  WanConfig config_;
  std::vector<nn::Attention> blocks_;  // used for their keys and values only
};

}  // namespace

std::unique_ptr<WanBranch> make_image_branch(const Scope&, const WanConfig& c, nn::ParamStore&) {
  return c.image_branch() ? std::make_unique<ImageBranch>(c) : nullptr;
}

}  // namespace tachy
