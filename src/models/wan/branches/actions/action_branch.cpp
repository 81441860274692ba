#include "models/wan/branches/actions/action_branch.h"

#include <algorithm>

#include "models/wan/branches/actions/script.h"
#include "models/wan/dit.h"

namespace tachy {
namespace {

// The pixel frames [first, end) whose actions a block of latent frames needs.
struct PixelFrames {
  int64_t first, end;
};

// Checks a script's `rows` [n, width], which begin at pixel frame `begin`. `to` is the place of a block's
// actions; it is undefined if the model has no such actions.
void expect_actions(const char* name, const Tensor& rows, int64_t begin, int64_t width,
                    const PixelFrames& needed, const Tensor& to) {
  if (!to.defined())
    return require(!rows.defined(), "transformer: actions of a {} given, but the model has none", name);
  require(rows.defined(), "transformer: expected the actions of a {}, got none", name);
  expect_shape("transformer", name, rows, {-1, width});
  require(begin >= 0 && begin <= needed.first && rows.dim(0) >= needed.end - begin,
          "transformer: {}: expected the actions of pixel frames {} to {}, got {} from {} on", name,
          needed.first, needed.end - 1, rows.dim(0), begin);
}

// Copies the actions that a block sees, on the host.
void put_actions(const WanActionConfig& c, const Tensor& rows, int64_t begin, const WanCausal& block,
                 const Tensor& to) {
  if (!to.defined()) return;
  const int64_t count = c.needed(block.frames), width = to.dim(1);
  for (int64_t i = 0; i < count; ++i) {
    const float* from = rows.as<float>() + (c.frame_of(block.first, i) - begin) * width;
    std::copy(from, from + width, to.as<float>() + i * width);
  }
}

const WanActionMemory& memory_of(const WanCausal& causal) { return *causal.memory.find<WanActionMemory>(); }

const WanScript& script_of(const WanExtras& given) {
  static const WanScript kNone;
  const auto* script = given.find<WanScript>();
  return script ? *script : kNone;
}

class ActionBranch : public WanBranch {
 public:
  explicit ActionBranch(const WanConfig& c)
      : config_(c.actions), dim_(c.dim()), modules_(c.actions.blocks.size()) {}

  bool load(const Scope& block, int64_t index, nn::ParamStore& store) override {
    if (!config_.in_block(index)) return false;
    modules_[static_cast<size_t>(module_of(index))] =
        WanAction(block.sub("action_model"), config_, dim_, store);
    return true;
  }

  bool remembers() const override { return true; }
  const char* needs_all_tokens() const override { return "a video that follows actions"; }
  bool takes(std::type_index type) const override { return type == typeid(WanScript); }

  void allocate(WanCausal& causal, int64_t places, WanConstants& constants,
                nn::ParamStore& store) const override;
  void expect_block(const WanCausal& causal, const WanFrames& frames, const WanExtras& given) const override;
  void fill(const WanCausal& causal, const WanExtras& given,
            const std::function<Tensor(const Tensor&)>& on_host) const override;

  void expect(const WanInput& in) const override {
    require(in.causal, "transformer: the model follows actions: it can only make a video block by block");
  }
  void after_cross_attention(const WanBlockInput& in, int64_t index, WanPending& sum,
                             Stream& stream) const override;

 private:
  int64_t module_of(int64_t index) const {
    return std::ranges::find(config_.blocks, index) - config_.blocks.begin();
  }

  WanActionConfig config_;
  int64_t dim_;
  std::vector<WanAction> modules_;  // one for each block that has a module
};

void ActionBranch::allocate(WanCausal& causal, int64_t places, WanConstants& constants,
                            nn::ParamStore& store) const {
  const WanActionConfig& a = config_;
  const runtime::RingSlots without_sinks{causal.window.frames, 0};
  const auto modules = static_cast<int64_t>(modules_.size());
  const int64_t most = causal.most;
  const auto values = [&](std::initializer_list<int64_t> dims) {
    return store.allocate(store.stream().precision.activation, dims);
  };
  const auto made = std::make_shared<WanActionMemory>();
  const int64_t key_pairs = a.keyboard_hidden / a.heads / 2, mouse_pairs = a.mouse_hidden / a.heads / 2;
  made->keyboard_ring = runtime::KvRing::make(without_sinks, modules, 1, a.keyboard_hidden, false, values);
  constants.add(made->keyboard, {a.needed(most), a.keyboard_dim});
  constants.add(made->keyboard_cos, {most, a.heads, key_pairs});
  constants.add(made->keyboard_sin, {most, a.heads, key_pairs});
  if (a.mouse_dim > 0) {
    made->mouse_ring = runtime::KvRing::make(without_sinks, modules, places, a.mouse_hidden, false, values);
    constants.add(made->mouse, {a.needed(most), a.mouse_dim});
    constants.add(made->mouse_cos, {most, a.heads, mouse_pairs});
    constants.add(made->mouse_sin, {most, a.heads, mouse_pairs});
  }
  causal.memory.put(std::shared_ptr<const WanActionMemory>(made));
}

void ActionBranch::expect_block(const WanCausal& causal, const WanFrames& frames,
                                const WanExtras& given) const {
  const WanActionConfig& a = config_;
  const WanScript& script = script_of(given);
  const WanActionMemory& memory = memory_of(causal);
  const PixelFrames needed{a.frame_of(frames.first, 0), 1 + a.frames_each * (frames.end - 1)};
  expect_actions("keyboard", script.keyboard, script.first_frame, a.keyboard_dim, needed, memory.keyboard);
  expect_actions("mouse", script.mouse, script.first_frame, a.mouse_dim, needed, memory.mouse);
}

void ActionBranch::fill(const WanCausal& causal, const WanExtras& given,
                        const std::function<Tensor(const Tensor&)>& on_host) const {
  const WanScript& script = script_of(given);
  const WanActionMemory& memory = memory_of(causal);
  put_actions(config_, script.keyboard, script.first_frame, causal, on_host(memory.keyboard));
  put_actions(config_, script.mouse, script.first_frame, causal, on_host(memory.mouse));
  fill_action_rope(config_, causal.first, on_host(memory.keyboard_cos), on_host(memory.keyboard_sin));
  if (memory.mouse.defined())
    fill_action_rope(config_, causal.first, on_host(memory.mouse_cos), on_host(memory.mouse_sin));
}

void ActionBranch::after_cross_attention(const WanBlockInput& in, int64_t index, WanPending& sum,
                                         Stream& stream) const {
  sum.settle(in, stream);
  const WanCausal& causal = *in.causal;
  const WanActionMemory& memory = memory_of(causal);
  const auto of_block = [&](const Tensor& t) { return t.defined() ? t.slice(0, 0, causal.frames) : t; };
  const auto seen = [&](const Tensor& t) {
    return t.defined() ? t.slice(0, 0, config_.needed(causal.frames)) : t;
  };
  const int64_t module = module_of(index);
  modules_[static_cast<size_t>(module)]({.x = in.x,
                                         .frames = causal.frames,
                                         .first = causal.first,
                                         .mouse = seen(memory.mouse),
                                         .keyboard = seen(memory.keyboard),
                                         .mouse_cos = of_block(memory.mouse_cos),
                                         .mouse_sin = of_block(memory.mouse_sin),
                                         .keyboard_cos = of_block(memory.keyboard_cos),
                                         .keyboard_sin = of_block(memory.keyboard_sin),
                                         .mouse_ring = &memory.mouse_ring,
                                         .keyboard_ring = &memory.keyboard_ring,
                                         .parts = causal.parts,
                                         .keyboard_known = causal.known},
                                        module, stream);
}

}  // namespace

std::unique_ptr<WanBranch> make_action_branch(const Scope&, const WanConfig& c, nn::ParamStore&) {
  return c.actions.present() ? std::make_unique<ActionBranch>(c) : nullptr;
}

}  // namespace tachy
