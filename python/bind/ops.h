// The ops of the table, each from the file of its subject, and a function that these files share.
#pragma once

#include "bind/gradients.h"
#include "bind/op.h"
#include "ops/activation_kind.h"

namespace tachy::python {

extern const Op kRmsNorm, kRmsNormBackward, kRmsModulate, kRmsModulateBackward;      // rms_norm.cpp
extern const Op kLayerNorm, kLayerNormBackward;                                      // layer_norm.cpp
extern const Op kAddNorm, kAddNormBackward, kGatedResidual, kGatedResidualBackward;  // add_norm.cpp
extern const Op kActivation, kActivationBackward, kGlu, kGluBackward;                // activations.cpp
extern const Op kQkNormRope, kQkNormRopeBackward;                                    // qk_norm_rope.cpp
extern const Op kRope, kRope1d, kRope3d;                                             // rope.cpp
extern const Op kChannelNorm, kChannelNormBackward;                                  // channel_norm.cpp
extern const Op kGroupNorm, kGroupNormBackward;                                      // group_norm.cpp
extern const Op kAttention, kAttentionLse, kAttentionCoarse, kAttentionBackward;     // attention.cpp
extern const Op kLinear, kScaledLinear;                                              // linear.cpp
extern const Op kLora;                                                               // lora.cpp
extern const Op kChannelNormCodes, kScaledConv3d;                                    // scaled_conv.cpp
extern const Op kReparameterize, kReparameterizeBackward;                            // reparameterize.cpp

// Returns the activation with this number, or throws; `first` is 0 if "none" is a choice, otherwise 1.
ops::Activation activation_kind(const char* op, int64_t kind, int64_t first);

}  // namespace tachy::python
