// Golden cases of tests/golden: a component folder (config.json and weights), a file of inputs and reference
// outputs, and the reference's own float32 error e. A stage passes within max(3e, 5e-6) of the float64
// reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "nn/params.h"
#include "weights/json_file.h"
#include "weights/safetensors.h"
#include "weights/scope.h"

namespace tachy::test {

inline std::string golden_path(const std::string& name) {
  std::string path = TACHY_SOURCE_DIR "/tests/golden/";
  path += name;
  return path;
}

// Returns a case's path in tests/golden; a name without a folder means a case in `folder`.
inline std::string in_folder(const std::string& folder, const std::string& name) {
  return name.find('/') == std::string::npos ? folder + "/" + name : name;
}

struct GoldenFile {
  explicit GoldenFile(const std::string& name) : source(open_safetensors(golden_path(name))) {}
  bool has(const std::string& name) const { return source->has(name); }
  Tensor operator[](const std::string& name) const {
    const auto* entry = source->find(name);
    check(entry != nullptr, ErrorCode::not_found, "golden file has no '{}'", name);
    return Tensor(const_cast<void*>(entry->data), entry->dtype, entry->dims);
  }
  double bound() const {
    return std::max(3 * std::stod(source->metadata().at("reference_float32_error")), 5e-6);
  }
  std::shared_ptr<TensorSource> source;
};

// Returns max|y − r| / max|r| of contiguous float32 tensors; infinite if shapes differ or y holds NaN.
inline double error_of(const Tensor& y, const Tensor& r) {
  if (!same_shape(y, r) || y.numel() == 0) return INFINITY;
  double worst = 0, scale = 0;
  for (int64_t i = 0; i < r.numel(); ++i) {
    const double want = r.as<float>()[i], got = y.as<float>()[i];
    if (!std::isfinite(got)) return INFINITY;
    worst = std::max(worst, std::abs(got - want));
    scale = std::max(scale, std::abs(want));
  }
  return worst / scale;
}

inline std::vector<float> values_of(const Tensor& t) { return {t.as<float>(), t.as<float>() + t.numel()}; }

// Says how a component is loaded and run: body(stream, store) is called in a measure run, then for real in an
// arena of the measured size. `store_bytes` and `arena_bytes` return the planned sizes; both runs must agree.
struct PlannedRun {
  int threads = 2;
  bool pack = true;
  size_t planned_store = 0, store_bytes = 0, arena_bytes = 0, arena_peak = 0;
  Precision precision = {};

  template <class Body>
  void operator()(Body&& body) {
    ThreadPool pool(threads);
    Arena measure;
    Stream stream{.arena = &measure, .pool = &pool, .precision = precision};
    nn::ParamStore planned({.plan_only = true, .pack_weights = pack}, stream);
    body(stream, planned);
    planned_store = planned.bytes(), arena_bytes = measure.peak();
    Arena arena(std::max<size_t>(measure.peak(), 1));
    stream.arena = &arena;
    nn::ParamStore store({.plan_only = false, .pack_weights = pack}, stream);
    body(stream, store);
    store_bytes = store.bytes(), arena_peak = arena.peak();
  }
};

}  // namespace tachy::test
