// Owners of tensor memory.
//
// Buffer: one aligned allocation that lives as long as its owner (packed weights, caches, tables),
//         on the host or on a device.
// Arena:  a bump allocator for activations, 256-byte aligned, rewound per block; addresses repeat every step.
//         A measuring arena hands out tensors without storage: the same model code then yields the
//         exact peak. Their addresses are those of nobody's memory (planned_address).
//         An arena of pieces takes the same room, but each piece is a separate allocation of exactly the
//         bytes that were asked for, and is freed when it is given back, so that a sanitizer notices who
//         leaves it. This is slow, and meant for finding errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "tensor/device_memory.h"
#include "tensor/tensor.h"

namespace tachy {

inline constexpr size_t kAlignment = 256;
constexpr size_t align_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The address that memory seems to have while it is only counted. Its alignment is that of the real memory,
// so code that checks alignment takes the same path in a measure run as in a computing run. It is far from
// any address that a process can have, so any access faults.
inline void* planned_address(size_t offset) {
  constexpr uintptr_t kNowhere = uintptr_t{1} << 54;
  return reinterpret_cast<void*>(kNowhere + offset);
}

struct BufferFree {
  size_t bytes = 0;
  DeviceMemory* device = nullptr;
  void operator()(void* p) const;
};

class Buffer {
 public:
  Buffer() = default;
  // Allocates on the host, or on `device`, which must outlive the Buffer. Throws `out_of_memory` with the
  // size.
  explicit Buffer(size_t bytes, DeviceMemory* device = nullptr);
  void* data() const { return data_.get(); }
  size_t size() const { return size_; }
  Tensor tensor(DType dtype, std::span<const int64_t> dims) const;
  Tensor tensor(DType dtype, std::initializer_list<int64_t> dims) const {
    return tensor(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }

  // Bytes held by all live Buffers on the host (each rounded up to kAlignment), including those of arenas,
  // and their highest value since the last reset. Tests compare them with the plan. A DeviceMemory counts its
  // own.
  static size_t live_bytes();
  static size_t peak_bytes();
  static void reset_peak();

 private:
  std::unique_ptr<void, BufferFree> data_;
  size_t size_ = 0;
};

class Arena {
 public:
  Arena() = default;  // a measuring arena
  enum class Kind { whole, pieces };
  explicit Arena(size_t capacity, DeviceMemory* device = nullptr, Kind kind = Kind::whole)
      : buffer_(capacity && kind == Kind::whole ? Buffer(capacity, device) : Buffer()),
        capacity_(capacity),
        measuring_(false),
        kind_(kind),
        memory_(device),
        device_(device ? device->device() : Device::cpu) {}

  // Uses a part of `outer`, which must not be rewound past that part while this arena is used. If `outer`
  // measures, this arena does so, too, and `outer` counts its capacity.
  Arena(Arena& outer, size_t capacity)
      : lent_(outer.bytes(capacity)),
        capacity_(capacity),
        measuring_(outer.measuring()),
        device_(outer.device_) {}

  bool measuring() const { return measuring_; }
  Kind kind() const { return kind_; }
  size_t peak() const { return peak_; }
  size_t capacity() const { return capacity_; }

  size_t mark() const { return used_; }
  void rewind(size_t mark) {
    used_ = mark;
    if (kind_ == Kind::pieces) free_pieces();
  }

  // Returns a planned_address in a measure run. Throws `internal` if the plan was too small
  // (a bug: the plan is exact).
  void* bytes(size_t count);
  Tensor tensor(DType dtype, std::span<const int64_t> dims);
  Tensor tensor(DType dtype, std::initializer_list<int64_t> dims) {
    return tensor(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  Tensor f32(std::initializer_list<int64_t> dims) { return tensor(DType::f32, dims); }

 private:
  Buffer buffer_;
  void* lent_ = nullptr;  // memory of another owner, used in place of the Buffer
  size_t capacity_ = 0, used_ = 0, peak_ = 0;
  struct Piece {
    size_t offset;
    std::unique_ptr<void, BufferFree> data;
  };
  void* piece(size_t offset, size_t bytes);
  void free_pieces();  // frees the pieces past the used part

  bool measuring_ = true;
  Kind kind_ = Kind::whole;
  std::vector<Piece> pieces_;  // in the order of their offsets
  DeviceMemory* memory_ = nullptr;
  Device device_ = Device::null;
};

// Gives back everything allocated since its construction.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.rewind(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  size_t mark_;
};

}  // namespace tachy
