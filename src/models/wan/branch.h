// A branch is what a variant of Wan's transformer has beside text-to-video. It has parameters of its own, in blocks or beside
// them; a context, which is made once a prompt, a run, or a block of a causal video; and it acts at named points of a pass:
//   begin                     once, before the first block: x is what the patch embedding gave
//   after_self_attention      q, k and v have been used: it may read them, and have the place of v
//   beside_text               what the text's keys gave its queries is there: it may add what other keys give the same queries
//   after_cross_attention     what is about to be added to x is there
//   after_feed_forward        the same: hints between two blocks, or before the head
// The last two are handed the add itself (WanPending), since it is done in one pass with the norm behind it. A block knows its
// branches only as this class; they are built by branches/branches.cpp, and each is a folder there (CONTRIBUTING.md).
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

// This is still to be added to the residual stream: x += gate[row]·y.
struct WanPending {
  Tensor y;     // [batch·tokens, dim], memory that is free once it is added; undefined: nothing
  Tensor gate;  // [R, dim] f32, rows may be strided; undefined: 1

  void settle(const WanBlockInput& in, Stream& stream);  // adds it in a pass of its own
};

// A prompt's context is made of this: rows of the text and of the picture, as wide as the model.
struct WanTokens {
  Tensor text, image;  // the image undefined without
};

// The block of a causal video that is about to begin: latent frames [first, end).
struct WanFrames {
  int64_t first = 0, end = 0;
};

class WanBranch {
 public:
  virtual ~WanBranch() = default;

  // Takes its parameters of block `index`, whose scope this is; whether it acts there.
  virtual bool load(const Scope& block, int64_t index, nn::ParamStore& store) = 0;
  // Which of its linear layers in blocks multiply in 8 bits, and which are asked once a run (ParamStore::set_visiting).
  virtual bool multiplies_in_eight_bits(std::string_view layer) const;
  virtual bool makes_keys(std::string_view layer) const;

  // These tell, of a block where it acts, whether norms may write codes there, as they may if it reads none of their results and
  // leaves every add to them; whether it keeps something of a pass that only fills (WanInput::fill_only); and what a model is
  // that needs all tokens on one rank for it, or null.
  virtual bool takes_codes() const { return false; }
  virtual bool remembers() const { return false; }
  virtual const char* needs_all_tokens() const = 0;

  // Its part of a prompt's context, in context.more.
  virtual void add_context(const WanDit& dit, const WanTokens& tokens, WanContext& context,
                           nn::ParamStore& store) const;

  // Which type of WanInput::given, or of what begins a block of a causal video, is its own.
  virtual bool takes(std::type_index type) const;

  // These serve causal videos. The first makes the branch's memory, whose constants are uploaded for each block together with all
  // others; the second throws where what a block is given will not do; the third fills in the constants of the block that has
  // begun. on_host: where a constant's values are put.
  virtual void allocate(WanCausal& causal, int64_t places, WanConstants& constants,
                        nn::ParamStore& store) const;
  virtual void expect_block(const WanCausal& causal, const WanFrames& frames, const WanExtras& given) const;
  virtual void fill(const WanCausal& causal, const WanExtras& given,
                    const std::function<Tensor(const Tensor&)>& on_host) const;

  // A pass: throws for what it cannot follow; then what of the arena it needs for all of it goes to block.more.
  virtual void expect(const WanInput& in) const;
  virtual void begin(const WanInput& in, WanBlockInput& block, Stream& stream) const;

  // The points of block `index`. q and out: of batch item b, [1, tokens, heads, head_dim].
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
