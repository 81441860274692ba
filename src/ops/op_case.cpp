#include "ops/op_case.h"

#include <cstring>

namespace tachy::ops {

Tensor CaseMemory::allocate(DType dtype, Dims dims, bool input, bool output) {
  const Tensor shape(nullptr, dtype, dims);
  const int64_t shift = kind_ == CaseKind::odd && dtype_size(dtype) <= 4 ? 4 : 0;
  Buffer buffer(static_cast<size_t>(shape.bytes() + 2 * kGuardBytes + shift));
  std::memset(buffer.data(), kGuard, buffer.size());
  char* data = static_cast<char*>(buffer.data()) + kGuardBytes + shift;
  blocks_.push_back({std::move(buffer), data, shape.bytes(), input, output, {}});
  return Tensor(data, dtype, dims);
}

Tensor CaseMemory::normal(Dims dims, float scale, float offset) {
  Tensor t = allocate(DType::f32, dims, true, false);
  std::normal_distribution<float> gauss(offset, scale);
  for (int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = gauss(engine_);
  return t;
}

Tensor CaseMemory::normal_as(DType dtype, Dims dims) {
  Tensor t = allocate(dtype, dims, true, false);
  std::normal_distribution<float> gauss;
  for (int64_t i = 0; i < t.numel(); ++i) {
    const float v = gauss(engine_);
    switch (dtype) {
      case DType::f32:
        t.as<float>()[i] = v;
        break;
      case DType::f64:
        t.as<double>()[i] = v;
        break;
      case DType::bf16:
        t.as<bf16_t>()[i] = to_bf16(v);
        break;
      case DType::f16:
        t.as<f16_t>()[i] = to_f16(v);
        break;
      default:  // f8: without this bit no pattern is NaN or Inf
        static_cast<uint8_t*>(t.data)[i] = static_cast<uint8_t>(engine_() & 0xfbu);
    }
  }
  return t;
}

Tensor CaseMemory::rows(int64_t count, int64_t limit) {
  Tensor t = allocate(DType::i32, {count}, true, false);
  for (int64_t i = 0; i < count; ++i)
    t.as<int32_t>()[i] = static_cast<int32_t>(engine_() % static_cast<uint64_t>(limit));
  return t;
}

Tensor CaseMemory::ids(int64_t count, int64_t limit) {
  Tensor t = allocate(DType::i64, {count}, true, false);
  for (int64_t i = 0; i < count; ++i)
    t.as<int64_t>()[i] = static_cast<int64_t>(engine_() % static_cast<uint64_t>(limit));
  return t;
}

Tensor CaseMemory::output(DType dtype, Dims dims) { return allocate(dtype, dims, false, true); }

Tensor CaseMemory::inout(const Tensor& t) {
  block_of(t.data)->output = true;
  return t;
}

CaseMemory::Block* CaseMemory::block_of(const void* data) {
  const char* p = static_cast<const char*>(data);
  for (Block& block : blocks_)
    if (p >= block.data && p < block.data + std::max<int64_t>(1, block.bytes)) return &block;
  return nullptr;
}

}  // namespace tachy::ops
