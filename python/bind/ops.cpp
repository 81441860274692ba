#include "bind/ops.h"

namespace tachy::python {

std::span<const Op> op_table() {
  static const Op table[] = {kRmsNorm,
                             kRmsNormBackward,
                             kRmsModulate,
                             kRmsModulateBackward,
                             kLayerNorm,
                             kLayerNormBackward,
                             kAddNorm,
                             kAddNormBackward,
                             kGatedResidual,
                             kGatedResidualBackward,
                             kActivation,
                             kActivationBackward,
                             kGlu,
                             kGluBackward,
                             kQkNormRope,
                             kQkNormRopeBackward,
                             kRope,
                             kRope1d,
                             kRope3d,
                             kChannelNorm,
                             kChannelNormBackward,
                             kGroupNorm,
                             kGroupNormBackward,
                             kAttention,
                             kAttentionLse,
                             kAttentionCoarse,
                             kAttentionBackward,
                             kLora,
                             kLinear,
                             kScaledLinear,
                             kChannelNormCodes,
                             kScaledConv3d,
                             kReparameterize,
                             kReparameterizeBackward};
  return table;
}

}  // namespace tachy::python
