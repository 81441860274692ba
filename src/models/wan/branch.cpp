// By default, a branch does nothing.
#include "models/wan/branch.h"

#include "models/wan/block.h"
#include "ops/gated_residual/gated_residual.h"

namespace tachy {

void WanPending::settle(const WanBlockInput& in, Stream& stream) {
  if (!y.defined()) return;
  const ProfileRange part(stream.hooks.profiler, "residual", ProfileKind::norm);
  ops::gated_residual({.x = in.x, .u = y, .gate = gate, .row = gate.defined() ? in.row : Tensor(), .y = in.x},
                      stream);
  *this = {};
}

bool WanBranch::multiplies_in_eight_bits(std::string_view) const { return false; }
bool WanBranch::makes_keys(std::string_view) const { return false; }
bool WanBranch::takes(std::type_index) const { return false; }

void WanBranch::add_context(const WanDit&, const WanTokens&, WanContext&, nn::ParamStore&) const {}
void WanBranch::allocate(WanCausal&, int64_t, WanConstants&, nn::ParamStore&) const {}
void WanBranch::expect_block(const WanCausal&, const WanFrames&, const WanExtras&) const {}
void WanBranch::fill(const WanCausal&, const WanExtras&, const std::function<Tensor(const Tensor&)>&) const {}
void WanBranch::expect(const WanInput&) const {}
void WanBranch::begin(const WanInput&, WanBlockInput&, Stream&) const {}
bool WanBranch::attend(const WanBlockInput&, const nn::Attention::Projected&, int64_t, const Tensor&,
                       Stream&) const {
  return false;
}
void WanBranch::after_self_attention(const WanBlockInput&, const nn::Attention::Projected&, Stream&) const {}
void WanBranch::beside_text(const WanBlockInput&, int64_t, int64_t, const Tensor&, const Tensor&,
                            Stream&) const {}
void WanBranch::after_cross_attention(const WanBlockInput&, int64_t, WanPending&, Stream&) const {}
void WanBranch::after_feed_forward(const WanBlockInput&, int64_t, WanPending&, Stream&) const {}

}  // namespace tachy
