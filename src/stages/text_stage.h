#pragma once

#include <span>

#include "models/umt5/umt5_encoder.h"

namespace tachy {

// Encodes ids into text [ids, d_model] f32 (the caller's storage). Throws numerical if it holds NaN or Inf.
void encode_text(const Umt5Encoder& model, std::span<const int64_t> ids, const Tensor& text, Stream& stream);

}  // namespace tachy
