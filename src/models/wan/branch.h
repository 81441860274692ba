// A branch is what a variant of Wan's transformer adds to text-to-video. It has parameters of its own, in
// blocks or outside them. It has a context, which is made once per prompt, per run, or per block of a causal
// video. And it acts at named points of a pass:
//   begin                     once, before the first block: x is what the patch embedding gave
//   after_self_attention      q, k and v have been used: it may read them, and use the place of v
//   beside_text               the queries' result with the text's keys is there: it may add their result with
//                             other keys
//   after_cross_attention     what is about to be added to x is there
//   after_feed_forward        the same: hints between two blocks, or before the head
// The last two are handed the add itself (WanPending), since it is done in one pass with the norm after it.
// A block knows its branches only as this class. They are built by branches/branches.cpp, and each has a
// folder there (CONTRIBUTING.md).
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
  Tensor y;     // [batch·tokens, dim], in memory that is free once y is added; undefined: nothing to add
  Tensor gate;  // [R, dim] f32, rows may be strided; undefined: 1

  void settle(const WanBlockInput& in, Stream& stream);  // does the add in a pass of its own
};

// The tokens from which a prompt's context is made: rows of the text and of the
// picture, as wide as the model.
struct WanTokens {
  Tensor text, image;  // the image is undefined if there is none
};

// The block of a causal video that is about to begin: latent frames [first, end).
struct WanFrames {
  int64_t first = 0, end = 0;
};

class WanBranch {
 public:
  virtual ~WanBranch() = default;

  // Loads the branch's parameters of block `index`, whose scope is `block`. Returns whether the branch acts
  // in that block.
  virtual bool load(const Scope& block, int64_t index, nn::ParamStore& store) = 0;
  // Tell which of the branch's linear layers in blocks multiply in 8 bits, and which are used only once per
  // run (ParamStore::set_visiting).
  virtual bool multiplies_in_eight_bits(std::string_view layer) const;
  virtual bool makes_keys(std::string_view layer) const;

  // These three describe a branch in the blocks where it acts. takes_codes: norms may write codes there,
  // because it reads none of their results and leaves every add to them. remembers: it keeps something in a
  // pass that only fills (WanInput::fill_only). needs_all_tokens: what to call a model that needs all tokens
  // on one rank because of this branch; null if it does not.
  virtual bool takes_codes() const { return false; }
  virtual bool remembers() const { return false; }
  virtual const char* needs_all_tokens() const = 0;

  // Adds the branch's part of a prompt's context to context.more.
  virtual void add_context(const WanDit& dit, const WanTokens& tokens, WanContext& context,
                           nn::ParamStore& store) const;

  // Whether a value of this type, in WanInput::given or given to begin_block, belongs to this branch.
  virtual bool takes(std::type_index type) const;

  // These serve causal videos. The first makes the branch's memory, whose constants are uploaded for each
  // block together with all others. The second throws if the values given for a block cannot be used. The
  // third fills in the constants of the block that has begun; on_host tells where a constant's values go.
  virtual void allocate(WanCausal& causal, int64_t places, WanConstants& constants,
                        nn::ParamStore& store) const;
  virtual void expect_block(const WanCausal& causal, const WanFrames& frames, const WanExtras& given) const;
  virtual void fill(const WanCausal& causal, const WanExtras& given,
                    const std::function<Tensor(const Tensor&)>& on_host) const;

  // Called for a pass: `expect` throws if the branch cannot follow it; `begin` then puts into block.more
  // whatever it needs from the arena for the whole pass.
  virtual void expect(const WanInput& in) const;
  virtual void begin(const WanInput& in, WanBlockInput& block, Stream& stream) const;

  // The points of block `index`. q and out belong to batch item b and are [1, tokens, heads, head_dim].
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
