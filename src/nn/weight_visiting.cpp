// A weight that stays in its file, in the host's memory, and is sent to the device for each product. It suits
// layers that are used only a few times in a run, whose matrices would otherwise lie on the device unused.
// The bits are those of a dense weight.
#include <algorithm>
#include <vector>

#include "nn/weight_form.h"
#include "tensor/streaming_memory.h"

namespace tachy::nn {
namespace {

// Smaller weights save less than their copies cost.
constexpr int64_t kFewestBytes = int64_t{8} << 20;

class VisitingWeight final : public WeightForm {
 public:
  VisitingWeight(std::span<const WeightPart> parts, int64_t rows) : rows_(rows) {
    for (const WeightPart& part : parts) parts_.push_back(part.tensor);
  }
  const char* name() const override { return "visiting"; }
  int64_t out() const override { return rows_; }
  int64_t in() const override { return parts_.front().dim(1); }

  void product(ops::GemmArgs args, Stream& stream) const override {
    const ArenaScope scope(*stream.arena);
    args.weight = matrix(stream).values;
    ops::gemm(args, stream);
  }

  bool has_matrix() const override { return true; }
  // The copies begin when the queued work is done, because that work may still read the scratch.
  Matrix matrix(Stream& stream) const override {
    const Tensor all = stream.arena->tensor(stream.precision.activation, {rows_, in()});
    if (stream.measuring()) return {.values = all, .scratch = true};
    std::vector<StreamingMemory::Upload> uploads;
    int64_t first = 0;
    for (const Tensor& part : parts_) {
      const Tensor to = all.slice(0, first, first + part.dim(0));
      uploads.push_back(
          {to.data, static_cast<size_t>(to.bytes()),
           [&, type = to.dtype](void* piece, size_t begin, size_t bytes) {
             stream.throw_if_cancelled();
             const auto size = static_cast<size_t>(dtype_size(type));
             const auto n = static_cast<int64_t>(bytes / size), at = static_cast<int64_t>(begin / size);
             const Tensor from(static_cast<char*>(part.data) + at * dtype_size(part.dtype), part.dtype, {n});
             convert_weight(from, Tensor(piece, type, {n}), *stream.pool);
           }});
      first += part.dim(0);
    }
    StreamingMemory& memory = *StreamingMemory::of(stream.memory);
    memory.upload_all(uploads, *stream.pool);
    first = 0;
    for (const Tensor& part : parts_) {
      const Tensor there = all.slice(0, first, first + part.dim(0));
      if (memory.visited) memory.visited({there, part});
      first += part.dim(0);
    }
    return {.values = all, .scratch = true};
  }

 private:
  std::vector<Tensor> parts_;  // where they lie in the file
  int64_t rows_;
};

}  // namespace

WeightPtr make_visiting_weight(std::span<const WeightPart> parts, ParamStore& store) {
  const auto lies_there = [](const WeightPart& part) {
    const DType type = part.tensor.dtype;
    return !part.derived && part.tensor.contiguous() &&
           (type == DType::f32 || type == DType::bf16 || type == DType::f16);
  };
  int64_t rows = 0;
  for (const WeightPart& part : parts) rows += part.tensor.dim(0);
  const int64_t bytes = rows * parts.front().tensor.dim(1) * dtype_size(store.stream().precision.activation);
  if (bytes < kFewestBytes || !std::ranges::all_of(parts, lies_there)) return nullptr;
  return std::make_unique<VisitingWeight>(parts, rows);
}

}  // namespace tachy::nn
