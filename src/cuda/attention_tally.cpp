#include "cuda/attention_tally.h"

#include "tensor/memory.h"

namespace tachy::cuda {
namespace {

struct TallyMemory : Gpu::Extra {
  Buffer buffer;
  explicit TallyMemory(Gpu& gpu) : buffer(sizeof(AttentionTally), &gpu) {
    gpu.fill(buffer.data(), 0, sizeof(AttentionTally));
  }
};

}  // namespace

AttentionTally* attention_tally(Gpu& gpu) {
  if (!gpu.tally) gpu.tally = std::make_unique<TallyMemory>(gpu);
  return static_cast<AttentionTally*>(static_cast<TallyMemory&>(*gpu.tally).buffer.data());
}

AttentionTally read_attention_tally(Gpu& gpu) {
  AttentionTally tally;
  if (gpu.tally) gpu.download(&tally, attention_tally(gpu), sizeof(tally));
  return tally;
}

}  // namespace tachy::cuda
