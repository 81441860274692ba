// The implementations of embedding, for its table and the op runner.
#pragma once

#include "ops/embedding/embedding.h"
#include "ops/impl_table.h"

namespace tachy::ops {

void embedding_ref(const EmbeddingArgs& args, Stream& stream);
std::span<const Impl<EmbeddingArgs>> embedding_table();

}  // namespace tachy::ops
