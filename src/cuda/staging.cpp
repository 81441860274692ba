#include "cuda/staging.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/current_device.h"

namespace tachy::cuda {

Staging::Staging(SideQueue& side, cudaStream_t compute, int device)
    : side_(side), compute_(compute), device_(device), done_{make_event(), make_event()} {}

Staging::~Staging() {
  for (void* half : halves_)
    if (half) cudaFreeHost(half);
  for (cudaEvent_t event : done_) cudaEventDestroy(event);
  for (Slot& slot : slots_)
    if (slot.done) cudaEventDestroy(slot.done);
}

void Staging::upload_pieces(void* to, size_t bytes, const StreamingMemory::MakePiece& make) {
  allocate();
  const bool small = bytes <= kSmallBytes;
  cudaStream_t queue = small ? compute_ : side_.get();
  if (!small) side_.fork();
  for (size_t begin = 0; begin < bytes;) {
    if (kHalfBytes - used_ < std::min(bytes - begin, kHalfBytes / 4)) {
      leave_half();
      half_ ^= 1, used_ = 0;
      check_cuda(cudaEventSynchronize(done_[half_]), "upload");
    }
    const size_t count = std::min(bytes - begin, kHalfBytes - used_);
    char* piece = static_cast<char*>(halves_[half_]) + used_;
    make(piece, begin, count);
    stress_queue(queue);
    check_cuda(cudaMemcpyAsync(static_cast<char*>(to) + begin, piece, count, cudaMemcpyHostToDevice, queue),
               "upload");
    on_compute_ = on_compute_ || small;
    begin += count, used_ = std::min(align_up(used_ + count), kHalfBytes);
  }
  if (!small) side_.join("upload");
}

void Staging::upload_all(std::span<const StreamingMemory::Upload> uploads, ThreadPool& pool) {
  struct Piece {
    const StreamingMemory::Upload* of;
    size_t begin, count;
  };
  std::vector<Piece> pieces;
  for (const StreamingMemory::Upload& u : uploads)
    for (size_t begin = 0; begin < u.bytes; begin += kSlotBytes)
      pieces.push_back({&u, begin, std::min(kSlotBytes, u.bytes - begin)});
  allocate();
  leave_half();
  for (const cudaEvent_t done : done_) check_cuda(cudaEventSynchronize(done), "upload");
  side_.fork();
  // However the upload ends, the halves are free again when the copies queued so far are done.
  struct Leave {
    Staging& staging;
    ~Leave() {
      for (const cudaEvent_t done : staging.done_) cudaEventRecord(done, staging.side_.get());
      staging.used_ = kHalfBytes;
    }
  };
  {
    const Leave leave{*this};
    pool.run(static_cast<int64_t>(pieces.size()), [&](int64_t i, int) {
      const Piece& p = pieces[static_cast<size_t>(i)];
      send_through_slot(static_cast<size_t>(i) % slots_.size(), *p.of, p.begin, p.count);
    });
  }
  side_.join("upload");
}

void Staging::allocate() {
  for (void*& half : halves_)
    if (!half) check_cuda(cudaMallocHost(&half, kHalfBytes), "page-locked memory for uploads");
}

// Marks the half's contents as being copied.
void Staging::leave_half() {
  if (std::exchange(on_compute_, false)) side_.fork();
  check_cuda(cudaEventRecord(done_[half_], side_.get()), "upload");
}

void Staging::send_through_slot(size_t s, const StreamingMemory::Upload& upload, size_t begin, size_t count) {
  Slot& slot = slots_[s];
  const std::lock_guard lock(slot.mutex);
  const CurrentDevice here(device_);  // this runs in a thread of the pool
  if (!slot.done) slot.done = make_event();
  check_cuda(cudaEventSynchronize(slot.done), "upload");  // an event that was never recorded does not wait
  char* piece = static_cast<char*>(halves_[s / kSlotsOfHalf]) + s % kSlotsOfHalf * kSlotBytes;
  upload.make(piece, begin, count);
  stress_queue(side_.get());
  check_cuda(cudaMemcpyAsync(static_cast<char*>(upload.to) + begin, piece, count, cudaMemcpyHostToDevice,
                             side_.get()),
             "upload");
  check_cuda(cudaEventRecord(slot.done, side_.get()), "upload");
}

}  // namespace tachy::cuda
