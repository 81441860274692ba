#include "runtime/block_stream.h"

namespace tachy::runtime {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

int64_t BlockStream::rank_of(int64_t i, int64_t blocks, int64_t streamed) {
  const int64_t k = (i * streamed + blocks - 1) / blocks;  // the first whose block is i or later
  return k < streamed && k * blocks / streamed == i ? k : -1;
}

BlockStream::BlockStream(DeviceMemory& memory, int64_t blocks, int64_t streamed, const Tensor& slots)
    : memory_(memory), copies_(dynamic_cast<StreamingMemory&>(memory)), streamed_(streamed), slots_(slots) {
  check(streamed >= kFewest && streamed <= blocks && slots.dim(0) == 2, ErrorCode::internal,
        "block stream: {} of {} blocks", streamed, blocks);
  for (int64_t i = 0; i < blocks; ++i) ranks_.push_back(rank_of(i, blocks, streamed));
  images_ = Buffer(static_cast<size_t>(streamed * slots.dim(1)) + 2 * kPage);
}

BlockStream::~BlockStream() {
  try {
    finish();  // copies that read the images
    memory_.synchronize();
  } catch (const Error&) {
    // the device failed, and whoever uses it next is told
  }
  if (pinned_) copies_.unpin(image_of_rank(0));
}

char* BlockStream::slot(int64_t block) const {
  return static_cast<char*>(slots_.select(0, rank(block) % 2).data);
}

// Pages are locked as a whole, and one that something else has locked is refused: the images share none.
char* BlockStream::image_of_rank(int64_t rank) const {
  const auto start = (reinterpret_cast<uintptr_t>(images_.data()) + kPage - 1) / kPage * kPage;
  return reinterpret_cast<char*>(start) + rank * slots_.dim(1);
}

char* BlockStream::image(int64_t block) const { return image_of_rank(rank(block)); }

void BlockStream::loaded() {
  const auto bytes = static_cast<size_t>(streamed_ * slots_.dim(1));
  copies_.pin(image_of_rank(0), (bytes + kPage - 1) / kPage * kPage);
  pinned_ = true;
}

void BlockStream::send(int64_t k) {
  const auto s = static_cast<int>(k % 2);
  copies_.copy_beside(slots_.select(0, s).data, image_of_rank(k), static_cast<size_t>(slots_.dim(1)), s);
  holds_[s] = k, waited_[s] = false;
}

void BlockStream::enter(int64_t block) {
  const int64_t k = rank(block);
  if (k < 0) return;
  const auto s = static_cast<size_t>(k % 2);
  if (holds_[s] != k) send(k);  // the first pass, or the one before was given up
  if (!waited_[s]) copies_.wait_beside(static_cast<int>(s));
  waited_[s] = true;
}

void BlockStream::leave(int64_t block) {
  const int64_t k = rank(block);
  if (k < 0) return;
  const int64_t next = k + 2 < streamed_ ? k + 2 : k % 2;
  if (next != k) send(next);  // of three, the second keeps its slot
}

void BlockStream::finish() {
  for (int s = 0; s < 2; ++s) {
    if (!waited_[s]) copies_.wait_beside(s);
    waited_[s] = true;
  }
}

}  // namespace tachy::runtime
