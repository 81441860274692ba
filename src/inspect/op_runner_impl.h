// Parts that both halves of the runner share: a case on the host, and distances between results.
#pragma once

#include <chrono>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "inspect/op_runner.h"

namespace tachy {

using ops::BoundOp;
using ops::CaseKind;
using ops::CaseMemory;
using ops::OpCase;

// Calls visit(byte offset from t.data) for each element.
template <class Visit>
void for_each_element(const Tensor& t, Visit&& visit) {
  int64_t index[kMaxDims] = {};
  const int64_t count = t.numel(), size = dtype_size(t.dtype);
  for (int64_t n = 0; n < count; ++n) {
    int64_t offset = 0;
    for (int axis = 0; axis < t.rank; ++axis) offset += index[axis] * t.strides[axis];
    visit(offset * size);
    for (int axis = t.rank - 1; axis >= 0 && ++index[axis] == t.dims[axis]; --axis) index[axis] = 0;
  }
}

inline std::vector<char> bytes_of(const std::vector<Tensor>& outputs) {
  std::vector<char> all;
  for (const Tensor& t : outputs) {
    const char* data = static_cast<const char*>(t.data);
    if (t.contiguous()) {
      all.insert(all.end(), data, data + t.bytes());
      continue;
    }
    for_each_element(t, [&](int64_t offset) {
      all.insert(all.end(), data + offset, data + offset + dtype_size(t.dtype));
    });
  }
  return all;
}

// Returns everything that an op writes, to find out whether it writes anything else.
inline const std::vector<Tensor>& written(const BoundOp& op) {
  return op.written.empty() ? op.outputs : op.written;
}

// Returns "", or what an op has changed in a block but should not have: guard bytes, an input, or bytes
// between the rows of an output. `whole` has the block's bytes on the host, with the guards around them;
// `number` is the block's number, for texts.
std::string damage_of(const CaseMemory::Block& block, std::span<const char> whole, const BoundOp& op,
                      CaseMemory& memory, int number);

// One case: it is made once and run many times on the same memory.
class Bench {
 public:
  explicit Bench(const OpCase& op_case, uint64_t seed, ops::CaseTarget target = {})
      : memory_(seed, op_case.kind, target), op_(op_case.make(memory_)) {
    memory_.finish();
    for (auto& block : memory_.blocks())
      if (block.input) block.pristine.assign(block.data, block.data + block.bytes);
  }

  const BoundOp& op() const { return op_; }

  // Resets inputs to their values and outputs to NaN (every byte 0xff).
  void reset() {
    for (auto& block : memory_.blocks()) {
      if (block.input && block.output) std::memcpy(block.data, block.pristine.data(), block.pristine.size());
      if (!block.input) std::memset(block.data, 0xff, static_cast<size_t>(block.bytes));
    }
  }

  std::vector<char> run(const std::string& impl, ThreadPool& pool) {
    prepare(impl, pool);
    reset();
    Stream stream{&arena_, &pool};
    op_.run(impl, stream);
    return bytes_of(op_.outputs);
  }

  double seconds(const std::string& impl, ThreadPool& pool) {
    Stream stream{&arena_, &pool};
    const auto start = std::chrono::steady_clock::now();
    op_.run(impl, stream);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  // The arena gets the size that a measure run of this implementation needs.
  void prepare(const std::string& impl, ThreadPool& pool) {
    Arena measure;
    Stream stream{&measure, &pool};
    reset();
    op_.run(impl, stream);
    arena_ = Arena(measure.peak());
  }

  // Returns "", or what was changed but should not have been.
  std::string damage() {
    int number = 0;
    for (auto& block : memory_.blocks()) {
      const std::span whole(static_cast<const char*>(block.buffer.data()), block.buffer.size());
      if (std::string found = damage_of(block, whole, op_, memory_, number++); !found.empty()) return found;
    }
    return "";
  }

 private:
  CaseMemory memory_;
  BoundOp op_;
  Arena arena_;
};

struct Distance {
  double max = 0, rms = 0;
  bool same_specials = true;  // NaN and infinities in the same places
};

// `steps` has an error for each value that does not count in `max`; empty: none.
inline Distance distance(const std::vector<float>& a, const std::vector<float>& b,
                         const std::vector<float>& steps = {}) {
  Distance d;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      d.same_specials = d.same_specials && ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]);
      continue;
    }
    const double e = std::abs(static_cast<double>(a[i]) - b[i]);
    d.max = std::max(d.max, steps.empty() ? e : e - steps[i]);
    d.rms += e * e;
  }
  d.rms = a.empty() ? 0 : std::sqrt(d.rms / static_cast<double>(a.size()));
  return d;
}

// Outputs in e4m3 or int8 are codes: an error, however small, may turn a value into the next code. So each may
// be one step off, but only a sixteenth of them may be. Values before rounding to codes have about bf16's precision,
// which is many steps near zero.
inline constexpr double kCodeUnit = 0x1p-10;  // as a share of the largest value
inline std::vector<float> code_steps(const std::vector<float>& values, DType dtype) {
  if (dtype == DType::i8) return std::vector<float>(values.size(), 1.0f);
  std::vector<float> steps;
  for (const float v : values) {
    int exponent;
    std::frexp(v, &exponent);  // v = m · 2^exponent, m in [0.5, 1)
    steps.push_back(std::isfinite(v) ? std::ldexp(1.0f, std::max(exponent - 4, -9)) : 0.0f);
  }
  return steps;
}
inline double code_rms(const std::vector<float>& steps) {
  double squares = 0;
  for (const float s : steps) squares += static_cast<double>(s) * s;
  return steps.empty() ? 0 : 0.25 * std::sqrt(squares / static_cast<double>(steps.size()));
}

// Returns the result of one mode for an implementation: `blank` with what body(result) adds. It is skipped if
// why_not is not empty, and a failure if body throws.
template <class Body>
OpResult attempt(OpResult blank, const char* mode, const std::string& why_not, Body&& body) {
  blank.mode = mode;
  if (!why_not.empty()) {
    blank.skipped = true, blank.detail = why_not;
    return blank;
  }
  try {
    body(blank);
  } catch (const std::exception& error) {
    blank.ok = false, blank.detail = error.what();
  }
  return blank;
}

// Whether a part of OpRunnerOptions::filter takes the name of a case or of an implementation.
bool fits_part(std::string_view wanted, std::string_view name);

// Whether the filter's part for implementations takes this one, and `without` does not leave it out.
bool wants_impl(const OpRunnerOptions& options, std::string_view prefix, const std::string& impl);

// Appends the results of one case on the GPU (op_runner_gpu.cpp).
void run_case_on_gpu(const OpRunnerOptions& options, const OpCase& op_case, const std::string& impl_prefix,
                     ThreadPool& pool, const GpuCeilings& ceilings, std::vector<OpResult>& results);

}  // namespace tachy
