// Memory of a device that is simulated on the host: it is counted and limited, and it fails when a test wants
// that. Copies beside the compute stream are made as late as the contract allows, and until then their target
// holds NaN: code that uses a block without waiting for it, or while its successor is already arriving, gets
// other values.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/env.h"
#include "base/error.h"
#include "session/parts.h"
#include "stages/text_stage.h"
#include "tensor/stream.h"
#include "tensor/streaming_memory.h"
#include "tensor/transfer.h"

namespace tachy::test {

class HostDevice : public DeviceMemory, public StreamingMemory {
 public:
  explicit HostDevice(size_t capacity) : capacity_(capacity) {}

  int64_t fail_at = -1;    // at this allocation (counted from 0) others have taken the memory
  bool pin_fails = false;  // whether the system allows no more page-locked memory
  std::atomic<int64_t> allocations{0}, pinned{0}, copies{0};
  std::atomic<int64_t> uploads{0}, fetches{0}, waits{0};  // `waits` is how often the host waited for queued
                                                          // work
  int looks_in_vain = 0;                                  // number of checks before a fetch has arrived
  std::atomic<size_t> copied_bytes{0}, pieces{0};
  int64_t damaged_piece = -1, damaged_copy = -1;  // one bit of this copy's piece arrives wrong
  std::atomic<int64_t> paces{0};
  std::function<void(int64_t pace)> on_pace;

  Device device() const override { return Device::cuda(0); }
  void* allocate(size_t bytes) override {
    check(allocations++ != fail_at && bytes <= free_bytes(), ErrorCode::out_of_memory,
          "out of GPU memory: could not allocate {} ({} free); held here:\n{}", human_bytes(bytes),
          human_bytes(free_bytes()), ledger.table());
    void* p = std::aligned_alloc(kAlignment, bytes);
    std::memset(p, 0xff, bytes);
    ledger.add(p, bytes);
    return p;
  }
  void release(void* p, size_t) noexcept override {
    ledger.remove(p);
    std::free(p);
  }
  size_t free_bytes() const override { return capacity_ - ledger.live(); }
  void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes), ++uploads; }
  void download(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    ++waits;
  }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, int byte, size_t bytes) override { std::memset(to, byte, bytes); }
  void synchronize() override { ++waits; }
  size_t live_bytes() const override { return ledger.live(); }
  size_t peak_bytes() const override { return ledger.peak(); }
  void reset_peak() override { ledger.reset_peak(); }

  void upload_pieces(void* to, size_t bytes, const MakePiece& make) override {
    constexpr size_t kPiece = 4096;  // most of a test's tensors are several pieces
    for (size_t begin = 0; begin < bytes; begin += kPiece, ++pieces) {
      make(static_cast<char*>(to) + begin, begin, std::min(kPiece, bytes - begin));
      if (static_cast<int64_t>(pieces) == damaged_piece) static_cast<char*>(to)[begin] ^= 1;
    }
  }
  void upload_all(std::span<const Upload> uploads, ThreadPool& pool) override {
    for (const Upload& u : uploads) {
      constexpr size_t kPiece = 4096;
      pool.run(static_cast<int64_t>((u.bytes + kPiece - 1) / kPiece), [&](int64_t i, int) {
        const size_t begin = static_cast<size_t>(i) * kPiece;
        u.make(static_cast<char*>(u.to) + begin, begin, std::min(kPiece, u.bytes - begin));
        if (static_cast<int64_t>(pieces) + i == damaged_piece) static_cast<char*>(u.to)[begin] ^= 1;
      });
      pieces += (u.bytes + kPiece - 1) / kPiece;
    }
  }
  void pin(void*, size_t bytes) override {
    check(!pin_fails, ErrorCode::out_of_memory, "could not page-lock {}", human_bytes(bytes));
    ++pinned;
  }
  void unpin(void*) noexcept override { --pinned; }
  void copy_beside(void* to, const void* from, size_t bytes, int mark) override {
    run(mark);
    std::memset(to, 0xff, bytes);  // NaN until somebody waits for the copy
    waiting_[mark] = Copy{to, from, bytes, copies == damaged_copy};
    ++copies, copied_bytes += bytes;
  }
  void wait_beside(int mark) override { run(mark); }
  // The host's memory holds 0xff until somebody waits for the fetch.
  void fetch(void* pinned, const void* from, size_t bytes, int mark) override {
    const char* values = static_cast<const char*>(from);
    std::memset(pinned, 0xff, bytes);
    const std::lock_guard lock(fetching_mutex_);
    fetching_[{std::this_thread::get_id(), mark}] = {pinned, std::vector<char>(values, values + bytes)};
    ++fetches;
  }
  bool fetched(int mark) override {
    if (looks_in_vain_++ < looks_in_vain) return false;
    looks_in_vain_ = 0;
    const std::lock_guard lock(fetching_mutex_);
    Fetch& f = fetching_[{std::this_thread::get_id(), mark}];
    if (f.to) std::memcpy(f.to, f.values.data(), f.values.size());
    f = {};
    ++waits;
    return true;
  }
  void pace() override {
    if (on_pace) on_pace(paces);
    ++paces;
  }
  uint64_t checksum(const void* device, size_t bytes) override { return checksum_of(device, bytes); }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
    bool damaged;
  };
  void run(int mark) {
    if (waiting_[mark]) std::memcpy(waiting_[mark]->to, waiting_[mark]->from, waiting_[mark]->bytes);
    if (waiting_[mark] && waiting_[mark]->damaged) static_cast<char*>(waiting_[mark]->to)[0] ^= 1;
    waiting_[mark].reset();
  }

  struct Fetch {
    void* to = nullptr;
    std::vector<char> values;
  };

  int looks_in_vain_ = 0;  // such checks so far, for the fetch that is being waited for
  size_t capacity_;
  // Sessions that share this device run in threads of their own, and each has marks of its own on a GPU.
  std::mutex fetching_mutex_;
  std::map<std::pair<std::thread::id, int>, Fetch> fetching_;
  std::optional<Copy> waiting_[kMarks];
};

// Returns the text encoder's result for some ids, with `streamed` of its layers streamed through two slots of
// `memory`. The stream has the memory, and the GPU if the memory is a GPU's.
inline std::vector<float> encode_streamed(const ModelBundle& model, int64_t streamed, Stream stream) {
  const std::vector<int64_t> ids = {3, 7, 11, 5, 1};
  std::vector<float> out(ids.size() * static_cast<size_t>(model.text.d_model));
  const Buffer place(out.size() * 4, stream.memory);
  const Tensor text = place.tensor(DType::f32, {static_cast<int64_t>(ids.size()), model.text.d_model});
  Arena measure;
  stream.arena = &measure;
  encode_text(*load_text(model, stream, streamed).model, ids, text, stream);
  Arena arena(std::max<size_t>(measure.peak(), 1), stream.memory);
  stream.arena = &arena;
  const LoadedText loaded = load_text(model, stream, streamed);
  for (int pass = 0; pass < 2; ++pass) encode_text(*loaded.model, ids, text, stream);
  download(text, out.data(), stream);
  return out;
}

}  // namespace tachy::test
