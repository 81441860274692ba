#include "models/wan/branches/vace/vace_branch.h"

#include <algorithm>

#include "models/wan/dit.h"
#include "ops/add_rows/add_rows.h"
#include "ops/elementwise/elementwise.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"
#include "ops/patchify/patchify.h"

namespace tachy {
namespace {

// The keys and values of a prompt for the control blocks.
struct ControlContext {
  static constexpr const char* kName = "the control's context";
  WanContext keys;
  std::vector<Tensor> tensors() const { return {keys.k, keys.v}; }
};

// The input of the control blocks: its x is c, and its u is the transformer's.
struct ControlPass {
  static constexpr const char* kName = "the control's pass";
  WanBlockInput in;
  std::vector<Tensor> tensors() const { return {in.x}; }
};

class VaceBranch : public WanBranch {
 public:
  VaceBranch(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

  bool load(const Scope&, int64_t index, nn::ParamStore&) override {
    return config_.vace.hint_of(index) >= 0;  // its parameters are outside of the blocks
  }
  bool takes_codes() const override { return true; }
  const char* needs_all_tokens() const override { return nullptr; }
  bool takes(std::type_index type) const override { return type == typeid(WanControl); }

  void add_context(const WanDit& dit, const WanTokens& tokens, WanContext& context,
                   nn::ParamStore& store) const override;
  void expect(const WanInput& in) const override;
  void begin(const WanInput& in, WanBlockInput& block, Stream& stream) const override;
  void after_feed_forward(const WanBlockInput& in, int64_t index, WanPending& sum,
                          Stream& stream) const override;

 private:
  struct Control {
    WanBlock block;
    nn::Linear out;
  };
  int64_t hints() const { return static_cast<int64_t>(controls_.size()); }

  WanConfig config_;
  nn::Linear patch_embedding_, in_;
  Tensor tables_;  // [hints, 6·dim] f32
  std::vector<Control> controls_;
};

VaceBranch::VaceBranch(const Scope& scope, const WanConfig& c, nn::ParamStore& store) : config_(c) {
  check(!c.image_branch(), ErrorCode::unsupported,
        "wan: control blocks in a model that looks at a picture are not supported");
  const int64_t dim = c.dim(), count = static_cast<int64_t>(c.vace.layers.size());
  patch_embedding_ = nn::Linear::from_kernel(scope.sub("vace_patch_embedding"), store,
                                             {dim, c.vace.in_channels, c.patch_t, c.patch_h, c.patch_w});
  tables_ = store.allocate(DType::f32, {count, 6 * dim});
  const Scope blocks = scope.sub("vace_blocks");
  in_ = nn::Linear(blocks.sub(0).sub("proj_in"), store, dim, dim);
  for (int64_t i = 0; i < count; ++i)
    controls_.push_back({WanBlock(blocks.sub(i), c, i, tables_.select(0, i), store),
                         nn::Linear(blocks.sub(i).sub("proj_out"), store, dim, dim)});
}

void VaceBranch::add_context(const WanDit&, const WanTokens& tokens, WanContext& context,
                             nn::ParamStore& store) const {
  Stream& stream = store.stream();
  const auto room = [&] {
    return store.allocate(stream.precision.activation, {hints(), tokens.text.dim(0), config_.dim()});
  };
  ControlContext made{{.k = room(), .v = room(), .key_bias = context.key_bias}};
  for (int64_t i = 0; i < hints(); ++i)
    controls_[static_cast<size_t>(i)].block.text_keys(tokens.text, made.keys.k.select(0, i),
                                                      made.keys.v.select(0, i), stream);
  context.more.put(std::move(made));
}

void VaceBranch::expect(const WanInput& in) const {
  require(!in.causal, "transformer: a control video does not go with a video made block by block");
  const auto* control = in.given.find<WanControl>();
  require(control, "transformer: the model follows a control video: expected one, got none");
  if (!control->latents.defined()) return;
  const Tensor& x = in.latents;
  expect_shape("transformer", "control_hidden_states", control->latents,
               {x.dim(0), config_.vace.in_channels, x.dim(2), x.dim(3), x.dim(4)});
  expect_shape("transformer", "control_hidden_states_scale", control->scales, {hints(), config_.dim()});
}

void VaceBranch::begin(const WanInput& in, WanBlockInput& block, Stream& stream) const {
  const Tensor& control = in.given.find<WanControl>()->latents;
  if (!control.defined()) return;
  const WanConfig& c = config_;
  Arena& arena = *stream.arena;
  const int64_t rows = block.batch * block.tokens, all = in.grid->tokens(), dim = c.dim();
  const ProfileRange part(stream.hooks.profiler, "control's patches", ProfileKind::linear);
  ControlPass pass{{.batch = block.batch,
                    .tokens = block.tokens,
                    .x = arena.tensor(stream.precision.residual, {rows, dim}),
                    .modulation = arena.f32({hints(), in.times.projection.dim(0), 6 * dim}),
                    .row = block.row,
                    .cos = block.cos,
                    .sin = block.sin,
                    .comm = block.comm,
                    .spread = block.spread,
                    .keys = block.keys}};
  for (const WanContext* context : block.contexts)
    pass.in.contexts.push_back(&context->more.find<ControlContext>()->keys);
  ops::add_rows({.table = tables_, .rows = in.times.projection, .y = pass.in.modulation}, stream);
  const ArenaScope scope(arena);
  const DType type = stream.precision.activation;
  const Tensor patches = arena.tensor(
                   type, {block.batch, all, c.vace.in_channels * c.patch_t * c.patch_h * c.patch_w}),
               wide = arena.tensor(type, {rows, dim});
  ops::patchify({control, c.patch_t, c.patch_h, c.patch_w, patches, in.grid->place}, stream);
  const Tensor own = runtime::own_tokens(in.comm, in.spread(), patches, stream);
  patch_embedding_(own.view({rows, -1}), wide, stream);
  in_(wide, pass.in.x, stream, {.residual = block.x});
  block.more.put(std::move(pass));
}

void VaceBranch::after_feed_forward(const WanBlockInput& in, int64_t index, WanPending& sum,
                                    Stream& stream) const {
  const auto* const found = in.more.find<ControlPass>();
  if (!found) return;
  sum.settle(in, stream);
  const int64_t hint = config_.vace.hint_of(index), dim = config_.dim();
  const Control& control = controls_[static_cast<size_t>(hint)];
  ProfileRange part(stream.hooks.profiler, "control", ProfileKind::group);
  WanBlockInput pass = found->in;
  pass.u = in.u;  // u is free until the hint is made
  const WanModulation first = WanBlock::first_norm(pass, hint);
  ops::layernorm_modulate({.x = pass.x,
                           .scale = first.scale,
                           .shift = first.shift,
                           .row = pass.row,
                           .eps = config_.eps,
                           .y = pass.u},
                          stream);
  control.block.forward(pass, {}, hint, stream);
  part.next("hint", ProfileKind::linear);
  const ArenaScope scope(*stream.arena);
  Tensor c = pass.x;
  if (c.dtype != in.u.dtype) {
    c = stream.arena->tensor(in.u.dtype, c.shape());
    ops::copy({.x = pass.x, .y = c}, stream);
  }
  control.out(c, in.u, stream);
  // The gate is the same for all timesteps.
  sum = {.y = in.u, .gate = in.more.find<WanControl>()->scales.select(0, hint).view({1, dim})};
  sum.gate.dims[0] = in.modulation.dim(1), sum.gate.strides[0] = 0;
}

}  // namespace

WanControl make_control(const WanDit& dit, const Tensor& latents, std::span<const float> scales,
                        nn::ParamStore& store) {
  const WanConfig& c = dit.config();
  require(c.vace.present(), "transformer: a control video given, but the model has no control blocks");
  const size_t hints = c.vace.layers.size(), dim = static_cast<size_t>(c.dim());
  require(scales.empty() || scales.size() == hints,
          "transformer: control_hidden_states_scale: expected {} values, got {}", hints, scales.size());
  if (!scales.empty() && std::ranges::all_of(scales, [](float s) { return s == 0; })) return {};
  std::vector<float> rows(hints * dim, 1.0f);
  for (size_t i = 0; i < scales.size(); ++i) std::fill_n(rows.begin() + i * dim, dim, scales[i]);
  return {.latents = latents,
          .scales = store.uploaded(rows.data(), DType::f32, {static_cast<int64_t>(hints), c.dim()})};
}

std::unique_ptr<WanBranch> make_vace_branch(const Scope& scope, const WanConfig& c, nn::ParamStore& store) {
  return c.vace.present() ? std::make_unique<VaceBranch>(scope, c, store) : nullptr;
}

}  // namespace tachy
