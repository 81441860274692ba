// A branch is what a variant of Wan's transformer adds to text-to-video. It has its own parameters, inside or
// outside of blocks, and a context, which is made once per prompt, per run, or per block of a causal video.
// It acts at named points of a pass:
//   begin                     once before the first block, when x is the result of the patch embedding
//   attend                    self-attention itself, if the model was trained with another kind
//   after_self_attention      q, k and v have been used; it may read them, and overwrite v
//   beside_text               the queries' result with the text's keys exists; it may add their result with
//                             other keys
//   after_cross_attention     a result is about to be added to x
//   after_feed_forward        the same: hints between two blocks, or before the head
// At the last two points a branch gets the pending sum (WanPending), because the sum is added to x in the
// same pass as the norm after it. A block knows branches only by this class. branches/branches.cpp builds
// them, and each has a folder there (CONTRIBUTING.md).
#pragma once

#include <functional>
#include <typeindex>

#include "models/wan/constants.h"
#include "models/wan/extras.h"
#include "nn/attention.h"

namespace tachy {

struct WanBlockInput;
struct WanCausal;
struct WanContext;
struct WanInput;
class WanDit;

// A sum that still has to be added to the residual stream: x += gate[row]·y.
struct WanPending {
  Tensor y;     // [batch·tokens, dim], free for other use once y is added; undefined if nothing is to add
  Tensor gate;  // [R, dim] f32, rows may be strided; if undefined, 1

  void settle(const WanBlockInput& in, Stream& stream);  // adds y to x in a separate pass
};

// The tokens from which a prompt's context is made: rows of the text and of the picture, as wide as the
// model.
struct WanTokens {
  Tensor text, image;  // the image is undefined if there is none
};

// The block of a causal video that begins next: latent frames [first, end).
struct WanFrames {
  int64_t first = 0, end = 0;
};

class WanBranch {
 public:
  virtual ~WanBranch() = default;

  // Loads the branch's parameters for block `index`, whose scope is `block`. Returns whether the branch acts
  // in that block.
  virtual bool load(const Scope& block, int64_t index, nn::ParamStore& store) = 0;
  // Tell which linear layers of the branch in blocks multiply in 8 bits, and which are used only once per run
  // (ParamStore::set_visiting).
  virtual bool multiplies_in_eight_bits(std::string_view layer) const;
  virtual bool makes_keys(std::string_view layer) const;

  // These three describe a branch in the blocks where it acts. takes_codes: norms may write codes there,
  // because the branch reads none of their results and adds nothing to x itself. remembers: it keeps
  // something in a pass that only fills (WanInput::fill_only). needs_all_tokens: the name of models that need
  // all tokens on one rank because of this branch, or null.
  virtual bool takes_codes() const { return false; }
  virtual bool remembers() const { return false; }
  virtual const char* needs_all_tokens() const = 0;

  // Adds the branch's share of a prompt's context to context.more.
  virtual void add_context(const WanDit& dit, const WanTokens& tokens, WanContext& context,
                           nn::ParamStore& store) const;

  // Says whether a value of this type, in WanInput::given or given to begin_block, belongs to this branch.
  virtual bool takes(std::type_index type) const;

  // These serve causal videos. The first makes the branch's memory; the constants in it are uploaded for each
  // block together with all others. The second throws if the values that are given for a block cannot be
  // used. The third fills in the constants of the block that has begun; on_host tells where the values of a
  // constant go.
  virtual void allocate(WanCausal& causal, int64_t places, WanConstants& constants,
                        nn::ParamStore& store) const;
  virtual void expect_block(const WanCausal& causal, const WanFrames& frames, const WanExtras& given) const;
  virtual void fill(const WanCausal& causal, const WanExtras& given,
                    const std::function<Tensor(const Tensor&)>& on_host) const;

  // Called for each pass. `expect` throws if the branch cannot follow it. `begin` allocates in the arena what
  // the branch needs for the whole pass, and puts it into block.more.
  virtual void expect(const WanInput& in) const;
  virtual void begin(const WanInput& in, WanBlockInput& block, Stream& stream) const;

  // Does the self-attention of block `index` in place of the block, and returns whether it did. `made` are normed and
  // turned; `out` [rows, dim] lies where in.u does, which still has the norm of which they were made. With several
  // branches the first one that does it counts.
  virtual bool attend(const WanBlockInput& in, const nn::Attention::Projected& made, int64_t index,
                      const Tensor& out, Stream& stream) const;

  // The points of block `index`. q and out are those of batch item b: [1, tokens, heads, head_dim].
  virtual void after_self_attention(const WanBlockInput& in, const nn::Attention::Projected& made,
                                    Stream& stream) const;
  virtual void beside_text(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q,
                           const Tensor& out, Stream& stream) const;
  virtual void after_cross_attention(const WanBlockInput& in, int64_t index, WanPending& sum,
                                     Stream& stream) const;
  virtual void after_feed_forward(const WanBlockInput& in, int64_t index, WanPending& sum,
                                  Stream& stream) const;
};

}  // namespace tachy
