#include "ops/op_case.h"

#include <cstring>

#include "ops/case_values.h"

namespace tachy::ops {
namespace {

constexpr int64_t kTileValues = 1 << 20;

// Indices and packed weights are drawn whole.
bool may_repeat(DType dtype) { return dtype != DType::i32 && dtype != DType::i64 && dtype != DType::u8; }

}  // namespace

int64_t CaseMemory::drawn(int64_t count) const {
  return target_.tiled && kind_ >= CaseKind::real ? std::min(count, kTileValues) : count;
}

Tensor CaseMemory::allocate(DType dtype, Dims dims, bool input, bool output, bool activation, bool on_host) {
  const bool on_device = target_.device && !on_host;
  const DType wide = dtype;
  if (on_device && activation) dtype = target_.dtype;
  const Tensor shape(nullptr, dtype, dims);
  const int64_t size = dtype_size(dtype);
  const int64_t shift = kind_ != CaseKind::odd || size > 4 ? 0 : on_device ? size : 4;
  const auto total = static_cast<size_t>(shape.bytes() + 2 * kGuardBytes + shift);
  Buffer buffer(total, on_device ? target_.device : nullptr), values;
  if (on_device) {
    target_.device->fill(buffer.data(), kGuard, buffer.size());
    if (input) values = Buffer(static_cast<size_t>(shape.numel() * dtype_size(wide)));
  } else {
    std::memset(buffer.data(), kGuard,
                kind_ >= CaseKind::real && (!output || target_.blank) ? kGuardBytes : buffer.size());
    std::memset(static_cast<char*>(buffer.data()) + total - kGuardBytes, kGuard, kGuardBytes);
  }
  char* data = static_cast<char*>(buffer.data()) + kGuardBytes + shift;
  blocks_.push_back({std::move(buffer),
                     data,
                     shape.bytes(),
                     input,
                     output,
                     {},
                     wide,
                     activation,
                     on_device,
                     false,
                     std::move(values)});
  return Tensor(data, dtype, dims, on_device ? target_.device->device() : Device::cpu);
}

Tensor CaseMemory::host(const Tensor& t) {
  Block* block = block_of(t.data);
  check(block != nullptr, ErrorCode::internal, "op case: a tensor of another case");
  if (!block->on_device) return t;
  check(block->input, ErrorCode::internal, "op case: an output has no values yet");
  Tensor out = t;
  const int64_t at = (static_cast<char*>(t.data) - block->data) / dtype_size(t.dtype);
  out.data = static_cast<char*>(block->values.data()) + at * dtype_size(block->dtype);
  out.dtype = block->dtype, out.device = Device::cpu;
  return out;
}

void CaseMemory::fill_normal(const Tensor& t, float scale, float offset) {
  if (target_.blank) return;
  float* values = host(t).as<float>();
  const uint64_t key = mixed(seed_ * 1000003 + blocks_.size());
  if (kind_ < CaseKind::real) {
    normals(key, t.numel(), [&](int64_t i, float v) { values[i] = offset + scale * v; });
    return;
  }
  // All threads fill large tensors with sums of four uniforms, which depend only on the index.
  ranges(target_.pool, drawn(t.numel()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t r = mixed(key + static_cast<uint64_t>(i));
      const auto sum =
          static_cast<float>((r & 0xffff) + ((r >> 16) & 0xffff) + ((r >> 32) & 0xffff) + (r >> 48));
      values[i] = offset + scale * (sum - 131070.0f) * 2.6429e-5f;  // gives variance 1
    }
  });
}

Tensor CaseMemory::normal(Dims dims, float scale, float offset) {
  Tensor t = allocate(DType::f32, dims, true, false, true);
  fill_normal(t, scale, offset);
  return t;
}

Tensor CaseMemory::param(Dims dims, float scale, float offset) {
  Tensor t = allocate(DType::f32, dims, true, false);
  fill_normal(t, scale, offset);
  return t;
}

Tensor CaseMemory::host_weight(Dims dims, float scale) {
  Tensor t = allocate(DType::f32, dims, true, false, false, true);
  if (target_.blank) return t;
  fill_normal(t, scale, 0);
  auto* values = t.as<float>();
  const int64_t count = drawn(t.numel());
  for (int64_t i = 0; i < count; ++i) values[i] = rounded(values[i], target_.dtype);
  for (int64_t done = count; done < t.numel(); done *= 2)
    std::copy_n(values, std::min(done, t.numel() - done), values + done);
  return t;
}

Tensor CaseMemory::packed(int64_t bytes) {
  const CaseKind kind = kind_;
  if (target_.device) kind_ = CaseKind::tiny;  // Buffers are aligned, as in tiny cases
  Tensor t = allocate(DType::u8, {bytes}, true, false);
  kind_ = kind;
  blocks_.back().packed = true;
  return t;
}

Tensor CaseMemory::normal_as(DType dtype, Dims dims) {
  Tensor t = allocate(dtype, dims, true, false);
  if (target_.blank) return t;
  const Tensor values = host(t);
  if (dtype_size(dtype) == 1) {  // f8 patterns without this bit are never NaN or Inf
    const int64_t count = may_repeat(dtype) ? drawn(t.numel()) : t.numel();
    for (int64_t i = 0; i < count; ++i)
      static_cast<uint8_t*>(values.data)[i] = static_cast<uint8_t>(engine_() & 0xfbu);
    return t;
  }
  normals(mixed(seed_ * 1000003 + blocks_.size()), drawn(t.numel()),
          [&](int64_t i, float v) { narrow_one(v, dtype, values.data, i); });
  return t;
}

Tensor CaseMemory::rows(int64_t count, int64_t limit) {
  Tensor t = allocate(DType::i32, {count}, true, false);
  auto* values = host(t).as<int32_t>();
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<int32_t>(engine_() % static_cast<uint64_t>(limit));
  return t;
}

Tensor CaseMemory::ids(int64_t count, int64_t limit) {
  Tensor t = allocate(DType::i64, {count}, true, false);
  auto* values = host(t).as<int64_t>();
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit));
  return t;
}

Tensor CaseMemory::output(DType dtype, Dims dims) { return allocate(dtype, dims, false, true); }
Tensor CaseMemory::output(Dims dims) { return allocate(DType::f32, dims, false, true, true); }
Tensor CaseMemory::host_output(DType dtype, Dims dims) {
  return allocate(dtype, dims, false, true, false, true);
}

Tensor CaseMemory::inout(const Tensor& t) {
  block_of(t.data)->output = true;
  return t;
}

void CaseMemory::finish() {
  if (target_.blank) return;
  for (Block& block : blocks_) {
    if (!block.input) continue;
    if (!block.on_device) {
      if (block.activation && target_.dtype != DType::f32) {
        auto* values = reinterpret_cast<float*>(block.data);
        ranges(target_.pool, block.bytes / 4, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) values[i] = rounded(values[i], target_.dtype);
        });
      }
      continue;
    }
    if (block.packed) {
      if (target_.tiled) continue;
      block.pristine.resize(static_cast<size_t>(block.bytes));
      target_.device->download(block.pristine.data(), block.data, block.pristine.size());
      continue;
    }
    const DType to = block.activation ? target_.dtype : block.dtype;
    const char* bytes = static_cast<const char*>(block.values.data());
    const int64_t count = block.bytes / dtype_size(to);
    if (may_repeat(block.dtype) && drawn(count) < count) {
      std::vector<char> tile(static_cast<size_t>(kTileValues * dtype_size(to)));
      if (to == block.dtype)
        std::memcpy(tile.data(), bytes, tile.size());
      else
        for (int64_t i = 0; i < kTileValues; ++i)
          narrow_one(reinterpret_cast<const float*>(bytes)[i], to, tile.data(), i);
      target_.device->upload(block.data, tile.data(), tile.size());
      for (auto done = static_cast<int64_t>(tile.size()); done < block.bytes; done *= 2)
        target_.device->copy(block.data + done, block.data,
                             static_cast<size_t>(std::min(done, block.bytes - done)));
      continue;
    }
    if (to != block.dtype) {
      block.pristine.resize(static_cast<size_t>(block.bytes));
      const auto* values = static_cast<const float*>(block.values.data());
      ranges(target_.pool, count, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) narrow_one(values[i], to, block.pristine.data(), i);
      });
      bytes = block.pristine.data();
    } else {
      block.pristine.assign(bytes, bytes + block.bytes);
    }
    target_.device->upload(block.data, bytes, static_cast<size_t>(block.bytes));
  }
  if (target_.device) target_.device->synchronize();
}

CaseMemory::Block* CaseMemory::block_of(const void* data) {
  const char* p = static_cast<const char*>(data);
  for (Block& block : blocks_)
    if (p >= block.data && p < block.data + std::max<int64_t>(1, block.bytes)) return &block;
  return nullptr;
}

}  // namespace tachy::ops
