#include "tensor/tensor.h"

namespace tachy {

Tensor::Tensor(void* data_, DType dtype_, std::span<const int64_t> shape, Device device_)
    : data(data_), rank(static_cast<int8_t>(shape.size())), dtype(dtype_), device(device_) {
  check(!shape.empty() && shape.size() <= kMaxDims, ErrorCode::internal, "tensor: rank {} is not 1 to {}",
        shape.size(), kMaxDims);
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (shape[i] < 0) fail(ErrorCode::internal, "tensor: negative extent in {}", shape_string(shape));
    dims[i] = shape[i];
    strides[i] = stride;
    stride *= shape[i];
  }
}

namespace {

int normal_axis(int axis, int rank) {
  const int positive = axis < 0 ? axis + rank : axis;
  check(positive >= 0 && positive < rank, ErrorCode::internal, "tensor: axis {} of rank {}", axis, rank);
  return positive;
}

}  // namespace

int64_t Tensor::dim(int axis) const { return dims[normal_axis(axis, rank)]; }
int64_t Tensor::stride(int axis) const { return strides[normal_axis(axis, rank)]; }

int64_t Tensor::numel() const {
  int64_t count = rank ? 1 : 0;
  for (int i = 0; i < rank; ++i) count *= dims[i];
  return count;
}

bool Tensor::contiguous() const {
  int64_t expected = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (dims[i] != 1 && strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

Tensor Tensor::view(std::initializer_list<int64_t> shape) const {
  if (!contiguous()) fail(ErrorCode::internal, "tensor: view of a strided tensor {}", shape_string(*this));
  int64_t resolved[kMaxDims], known = 1;
  int unknown = -1, n = 0;
  for (int64_t extent : shape) {
    if (extent == -1)
      unknown = n;
    else
      known *= extent;
    resolved[n++] = extent;
  }
  if (unknown >= 0) resolved[unknown] = known ? numel() / known : 0;
  Tensor out(data, dtype, std::span<const int64_t>(resolved, static_cast<size_t>(n)), device);
  if (out.numel() != numel())
    fail(ErrorCode::internal, "tensor: view {} as {}", shape_string(*this), shape_string(out));
  return out;
}

Tensor Tensor::flat(int64_t begin, int64_t count) const {
  return Tensor(static_cast<char*>(data) + begin * dtype_size(dtype), dtype, {count}, device);
}

Tensor Tensor::slice(int axis, int64_t begin, int64_t end) const {
  const int a = normal_axis(axis, rank);
  check(begin >= 0 && begin <= end && end <= dims[a], ErrorCode::internal,
        "tensor: slice [{}, {}) of extent {}", begin, end, dims[a]);
  Tensor out = *this;
  if (data) out.data = static_cast<char*>(data) + begin * strides[a] * dtype_size(dtype);
  out.dims[a] = end - begin;
  return out;
}

Tensor Tensor::select(int axis, int64_t index) const {
  const int a = normal_axis(axis, rank);
  Tensor out = slice(a, index, index + 1);
  if (rank == 1) return out;
  for (int i = a; i + 1 < rank; ++i) out.dims[i] = out.dims[i + 1], out.strides[i] = out.strides[i + 1];
  --out.rank;
  out.dims[out.rank] = out.strides[out.rank] = 0;
  return out;
}

Tensor Tensor::transpose(int a, int b) const {
  Tensor out = *this;
  a = normal_axis(a, rank), b = normal_axis(b, rank);
  std::swap(out.dims[a], out.dims[b]);
  std::swap(out.strides[a], out.strides[b]);
  return out;
}

std::string shape_string(std::span<const int64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) out += fmt::format("{}{}", i ? ", " : "", dims[i]);
  return out + "]";
}

bool same_shape(const Tensor& a, const Tensor& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.dims[i] != b.dims[i]) return false;
  return true;
}

void expect_shape(const char* op, const char* name, const Tensor& t, std::initializer_list<int64_t> shape) {
  bool ok = t.rank == static_cast<int>(shape.size());
  int i = 0;
  for (int64_t extent : shape) {
    ok = ok && (extent == -1 || t.dims[i] == extent);
    ++i;
  }
  if (ok) return;
  fail(ErrorCode::invalid_argument, "{}: expected {} {}, got {}", op, name,
       shape_string(std::span<const int64_t>(shape.begin(), shape.size())), shape_string(t));
}

void expect_dtype(const char* op, const char* name, const Tensor& t, DType dtype) {
  if (t.dtype != dtype)
    fail(ErrorCode::invalid_argument, "{}: expected {} of dtype {}, got {}", op, name, dtype_name(dtype),
         dtype_name(t.dtype));
}

}  // namespace tachy
