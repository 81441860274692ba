#include "report/stage_io.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise/elementwise.h"
#include "tensor/stream.h"

namespace tachy {

StageIo::StageIo(const StageRequest& request) : request_(request) {
  if (!request.input.empty()) source_ = naming("`input`", [&] { return open_weights(request.input); });
}

Tensor StageIo::input(const std::string& name, int rank_min, int rank_max) {
  const TensorSource::Entry* entry = source_ ? source_->find(name) : nullptr;
  check(entry != nullptr, ErrorCode::not_found, "stage {}: `input` {} has no tensor '{}'", request_.name,
        request_.input.empty() ? "(not given)" : request_.input.string(), name);
  const int rank = static_cast<int>(entry->dims.size());
  require(rank >= rank_min && rank <= rank_max, "stage {}: '{}' has shape {}: expected {} dims",
          request_.name, name, shape_string(entry->dims),
          rank_min == rank_max ? fmt::format("{}", rank_min) : fmt::format("{} to {}", rank_min, rank_max));
  for (int64_t extent : entry->dims)
    require(extent > 0, "stage {}: '{}' is empty: {}", request_.name, name, shape_string(entry->dims));
  const Scope scope(source_);
  const Tensor raw = scope.tensor(name, std::span<const int64_t>(entry->dims));
  keep_.push_back(scope.keep());
  return is_float(entry->dtype) ? to_f32(raw) : to_i64(raw, name);
}

Tensor StageIo::allocate(DType dtype, std::span<const int64_t> dims) {
  Tensor shape(nullptr, dtype, dims);
  return buffers_.emplace_back(static_cast<size_t>(shape.bytes())).tensor(dtype, dims);
}

Tensor StageIo::output(const std::string& name, DType dtype, std::initializer_list<int64_t> dims) {
  const Tensor t = allocate(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
  outputs_.push_back({name, t});
  return t;
}

void StageIo::reshape_last(std::span<const int64_t> dims) {
  Tensor& t = outputs_.back().tensor;
  t = Tensor(t.data, t.dtype, dims);
}

void StageIo::write() {
  for (const NamedTensor& out : outputs_)
    if (out.tensor.dtype == DType::f32) {
      const float* values = out.tensor.as<float>();
      check(std::all_of(values, values + out.tensor.numel(), [](float v) { return std::isfinite(v); }),
            ErrorCode::numerical, "stage {}: '{}' holds NaN or Inf", request_.name, out.name);
    }
  naming("`out`", [&] { write_safetensors(request_.out, outputs_, {{"stage", request_.name}}); });
}

Tensor StageIo::to_f32(const Tensor& raw) {
  const Tensor out = allocate(DType::f32, raw.shape());
  auto* y = out.as<float>();
  if (raw.dtype == DType::f64) {
    for (int64_t i = 0; i < raw.numel(); ++i) y[i] = static_cast<float>(raw.as<double>()[i]);
    return out;
  }
  ThreadPool pool(1);
  Arena arena(1 << 16);
  Stream stream{.arena = &arena, .pool = &pool};
  ops::widen(raw, out, stream);
  return out;
}

Tensor StageIo::to_i64(const Tensor& raw, const std::string& name) {
  const Tensor out = allocate(DType::i64, raw.shape());
  auto* y = out.as<int64_t>();
  for (int64_t i = 0; i < raw.numel(); ++i) {
    switch (raw.dtype) {
      case DType::i64:
        y[i] = raw.as<int64_t>()[i];
        break;
      case DType::i32:
        y[i] = raw.as<int32_t>()[i];
        break;
      case DType::boolean:
      case DType::u8:
        y[i] = static_cast<const uint8_t*>(raw.data)[i];
        break;
      default:
        fail(ErrorCode::invalid_argument, "stage {}: '{}' has dtype {}", request_.name, name,
             dtype_name(raw.dtype));
    }
  }
  return out;
}

}  // namespace tachy
