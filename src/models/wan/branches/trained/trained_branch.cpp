#include "models/wan/branches/trained/trained_branch.h"

#include <cmath>

#include "models/wan/dit.h"
#include "ops/coarse_attention/coarse_attention.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/linear_attention/linear_attention.h"

namespace tachy {
namespace {

class TrainedBranch : public WanBranch {
 public:
  explicit TrainedBranch(const WanConfig& c) : config_(c), layers_(static_cast<size_t>(c.num_layers)) {
    heads_.heads = c.num_heads, heads_.head_dim = c.head_dim;
  }

  bool load(const Scope& block, int64_t index, nn::ParamStore& store) override {
    nn::Linear& layer = layers_[static_cast<size_t>(index)];
    if (cubes())
      layer = nn::Linear(block.sub("to_gate_compress"), store, config_.dim(), config_.dim());
    else
      layer = nn::Linear(block.sub("attn1").sub("proj_l"), store, config_.head_dim, config_.head_dim);
    return true;
  }
  const char* needs_all_tokens() const override { return nullptr; }  // expect() says where it does

  void expect(const WanInput& in) const override {
    require(!in.keys.trained || !in.causal,
            "transformer: a video made block by block does not attend as the model was trained");
    check(!in.keys.trained || !in.comm || in.comm->size() == 1, ErrorCode::unsupported,
          "transformer: attention as the model was trained needs all tokens on one rank");
  }
  bool attend(const WanBlockInput& in, const nn::Attention::Projected& made, int64_t index, const Tensor& out,
              Stream& stream) const override;

 private:
  bool cubes() const { return config_.trained == TrainedSparse::cubes; }
  void add_means(const WanBlockInput& in, const Tensor& gate, const Tensor& means, const Tensor& out,
                 Stream& stream) const;
  void add_linear(const WanBlockInput& in, const nn::Attention::Projected& made, int64_t index,
                  const Tensor& out, Stream& stream) const;

  WanConfig config_;
  nn::Attention heads_;             // for its views by heads
  std::vector<nn::Linear> layers_;  // a block's gate or P
};

bool TrainedBranch::attend(const WanBlockInput& in, const nn::Attention::Projected& made, int64_t index,
                           const Tensor& out, Stream& stream) const {
  const WanKeys& keys = in.keys;
  if (!keys.trained) return false;
  const ArenaScope scope(*stream.arena);
  ProfileRange part(stream.hooks.profiler, "choose blocks", ProfileKind::attention);
  const auto view = [&](const Tensor& t) { return heads_.by_heads(t, in.batch); };
  const int64_t heads = config_.num_heads, rows = in.batch * in.tokens;
  const int64_t queries =
      keys.query_blocks.defined() ? keys.query_blocks.ends.dim(0) : ops::BlockLists::blocks_of(in.tokens);
  ops::CoarseAttentionArgs coarse{.q = view(made.q),
                                  .k = view(made.k),
                                  .query_ends = keys.query_blocks.ends,
                                  .key_ends = keys.key_blocks.ends,
                                  .scale = WanBlock::score_scale(config_, stream),
                                  .keep = keys.keep};
  coarse.indices = stream.arena->tensor(DType::i32, {in.batch, heads, queries, keys.keep});
  coarse.counts = stream.arena->tensor(DType::i32, {in.batch, heads, queries});
  Tensor gate;
  if (cubes()) {
    coarse.v = view(made.v);
    coarse.out = stream.arena->f32({in.batch, queries, heads, config_.head_dim});
    gate = stream.arena->tensor(out.dtype, {rows, config_.dim()});
    layers_[static_cast<size_t>(index)](in.u, gate, stream);  // before attention writes over u
  }
  ops::coarse_attention(coarse, stream);
  part.next("attention", ProfileKind::attention);
  nn::attention_in_pieces({.q = coarse.q,
                           .k = coarse.k,
                           .v = view(made.v),
                           .scale = coarse.scale,
                           .blocks = {coarse.indices, coarse.counts, keys.query_blocks, keys.key_blocks},
                           .eight_bits = stream.precision.attention_int8,
                           .eight_bits_of_few = keys.few_in_eight_bits,
                           .out = view(out)},
                          stream);
  part.next(cubes() ? "means" : "linear attention", ProfileKind::attention);
  if (cubes())
    add_means(in, gate, coarse.out, out, stream);
  else
    add_linear(in, made, index, out, stream);
  return true;
}

void TrainedBranch::add_means(const WanBlockInput& in, const Tensor& gate, const Tensor& means,
                              const Tensor& out, Stream& stream) const {
  for (int64_t b = 0; b < in.batch; ++b) {
    const auto item = [&](const Tensor& t) { return t.slice(0, b * in.tokens, (b + 1) * in.tokens); };
    ops::gated_residual({.x = item(out),
                         .u = item(gate),
                         .gate = means.select(0, b).view({means.dim(1), config_.dim()}),
                         .row = in.keys.query_block_of,
                         .y = item(out)},
                        stream);
  }
}

void TrainedBranch::add_linear(const WanBlockInput& in, const nn::Attention::Projected& made, int64_t index,
                               const Tensor& out, Stream& stream) const {
  const int64_t rows = in.batch * in.tokens, width = config_.head_dim;
  const Tensor wide = stream.arena->tensor(out.dtype, {rows, config_.dim()}),
               projected = stream.arena->tensor(out.dtype, {rows, config_.dim()});
  // The queries may carry attention's scale already, which φ must not see.
  const float carried = WanBlock::score_scale(config_, stream) * std::sqrt(static_cast<float>(width));
  ops::linear_attention({.q = heads_.by_heads(made.q, in.batch),
                         .k = heads_.by_heads(made.k, in.batch),
                         .v = heads_.by_heads(made.v, in.batch),
                         .q_scale = carried,
                         .out = heads_.by_heads(wide, in.batch)},
                        stream);
  layers_[static_cast<size_t>(index)](wide.view({rows * config_.num_heads, width}),
                                      projected.view({rows * config_.num_heads, width}), stream);
  ops::gated_residual({.x = out, .u = projected, .gate = {}, .row = {}, .y = out}, stream);
}

}  // namespace

std::unique_ptr<WanBranch> make_trained_branch(const Scope&, const WanConfig& c, nn::ParamStore&) {
  if (c.trained == TrainedSparse::none) return nullptr;
  return std::make_unique<TrainedBranch>(c);
}

}  // namespace tachy
