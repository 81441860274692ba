#include "tensor/memory.h"

#include <algorithm>
#include <atomic>

#include "base/env.h"
#include "base/os/memory.h"
#include "tensor/peak_watch.h"

namespace tachy {
namespace {

std::atomic<size_t> g_live{0}, g_peak{0};

void count_allocation(size_t bytes) {
  const size_t now = g_live.fetch_add(bytes) + bytes;
  size_t peak = g_peak.load();
  while (now > peak && !g_peak.compare_exchange_weak(peak, now)) {
  }
  PeakWatch::note(nullptr, now);
}

// Large blocks use 2 MB pages if the system has them. Products read panels and rows that are pages apart, and
// with 4 KB pages they wait for address translation (GEMM in bf16 then runs at half the speed).
// TACHY_HUGE_PAGES=0 switches this off.
constexpr size_t kHugePage = size_t{2} << 20;

void* allocate_host(size_t bytes) {
  if (bytes < 2 * kHugePage) return os::allocate_aligned(bytes, kAlignment);
  void* p = os::allocate_aligned(bytes, kHugePage);
  static const bool wanted = env_string("TACHY_HUGE_PAGES", "1") != "0";
  if (p && wanted) os::prefer_huge_pages(p, bytes);
  return p;
}

}  // namespace

Buffer::Buffer(size_t bytes, DeviceMemory* device) : size_(bytes) {
  const size_t rounded = align_up(bytes ? bytes : 1);
  check(rounded >= bytes && bytes < (size_t{1} << 56), ErrorCode::out_of_memory, "buffer: {} bytes", bytes);
  if (device) {
    data_ = std::unique_ptr<void, BufferFree>(device->allocate(rounded), BufferFree{rounded, device});
    return;
  }
  void* p = allocate_host(rounded);
  check(p != nullptr, ErrorCode::out_of_memory, "out of memory: could not allocate {}", human_bytes(bytes));
  data_ = std::unique_ptr<void, BufferFree>(p, BufferFree{rounded, nullptr});
  count_allocation(rounded);
}

void BufferFree::operator()(void* p) const {
  if (device) return device->release(p, bytes);
  os::free_aligned(p);
  g_live.fetch_sub(bytes);
}

Tensor Buffer::tensor(DType dtype, std::span<const int64_t> dims) const {
  const DeviceMemory* memory = data_.get_deleter().device;
  Tensor out(data(), dtype, dims, memory ? memory->device() : Device::cpu);
  check(static_cast<size_t>(out.bytes()) <= size_, ErrorCode::internal, "buffer: {} of {} in {} bytes",
        shape_string(dims), dtype_name(dtype), size_);
  return out;
}

size_t Buffer::live_bytes() { return g_live.load(); }
size_t Buffer::peak_bytes() { return g_peak.load(); }
void Buffer::reset_peak() { g_peak.store(g_live.load()); }

void* Arena::bytes(size_t count) {
  const size_t offset = used_, size = align_up(count);
  check(measuring_ || offset + size <= capacity_, ErrorCode::internal,
        "arena: {} bytes asked at {} of {}: the plan was too small", count, offset, capacity_);
  used_ = offset + size;
  peak_ = used_ > peak_ ? used_ : peak_;
  if (measuring_) return planned_address(offset);
  return kind_ == Kind::pieces ? piece(offset, count)
                               : static_cast<char*>(lent_ ? lent_ : buffer_.data()) + offset;
}

void* Arena::piece(size_t offset, size_t count) {
  const size_t bytes = std::max<size_t>(count, 1);
  void* p = memory_ ? memory_->allocate(bytes) : os::allocate_aligned(bytes, kAlignment);
  if (!memory_) {
    check(p != nullptr, ErrorCode::out_of_memory, "out of memory: could not allocate {}", human_bytes(bytes));
    count_allocation(bytes);
  }
  pieces_.push_back({offset, std::unique_ptr<void, BufferFree>(p, BufferFree{bytes, memory_})});
  return p;
}

void Arena::free_pieces() {
  while (!pieces_.empty() && pieces_.back().offset >= used_) pieces_.pop_back();
}

Tensor Arena::tensor(DType dtype, std::span<const int64_t> dims) {
  Tensor shape_only(nullptr, dtype, dims, Device::null);
  void* data = bytes(static_cast<size_t>(shape_only.bytes()));
  return Tensor(data, dtype, dims, device_);
}

}  // namespace tachy
