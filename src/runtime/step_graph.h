// Replays a step as a CUDA graph. The first call with a shape runs directly (libraries choose their kernels
// then), the second is captured, and each later one is a single launch. The tensors that a step reads and
// writes must have the same addresses every time; values that change from step to step are copied into fixed
// tensors first.
//
// The graph may outlive the job in which it was captured: a later job whose steps have the same signature
// (addresses, shapes, precision, weights, adapters) launches it from its first step on. With any other
// signature, this starts again from the beginning.
//
// A graph cannot be stopped, and saves nothing if kernels are long. So a step that takes longer than
// kLongestUs is not captured, but queued piece by piece (runtime/pace.h). Ranks that wait for one another capture
// only what takes at most kLongestOfRanksUs: a graph's barriers are kernels, which take multiprocessors from attention,
// and a queue waits without any. The first call includes the loading of kernels; if it is too long, the second call is
// measured, too.
//
// Without a GPU, or on a queue that cannot be captured, every call runs directly.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cuda/graph.h"
#include "tensor/stream.h"

namespace tachy::runtime {

// Everything that a recorded step depends on.
class StepSignature {
 public:
  StepSignature& add(uint64_t value) {
    values_.push_back(value);
    return *this;
  }
  StepSignature& add(const Tensor& t);
  StepSignature& add(const Stream& stream);  // the start of its scratch, its precision and its adapters
  bool operator==(const StepSignature&) const = default;

 private:
  std::vector<uint64_t> values_;
};

class StepGraph {
 public:
  static constexpr double kLongestUs = 250e3, kLongestOfRanksUs = 50e3;

  // Returns the largest of the values that all ranks of a step give, which so do the same.
  using Agree = std::function<double(double mine)>;
  // `body` must only queue the step's work on the stream. It may be called again as long as the graph exists,
  // so it owns whatever it needs. Ranks whose work waits for one another on the device pass `agree`; otherwise it
  // is empty.
  void run(Stream& stream, const StepSignature& signature, const std::function<void()>& body,
           const Agree& agree = {});
  void forget();
  // Says whether the last call had this signature, so that all its kernels are loaded and the next call may capture it.
  bool knows(const StepSignature& signature) const {
    return signature == signature_ && (graph_ || last_us_ >= 0);
  }

  int captures() const { return captures_; }  // how many so far
  // Returns the number of the graph's nodes, or 0 before the capture.
  int64_t nodes() const { return graph_ ? static_cast<int64_t>(graph_->nodes()) : 0; }
  std::vector<std::string> names() const { return graph_ ? graph_->names() : std::vector<std::string>(); }

  // Says whether steps on this stream can be recorded.
  static bool possible(const Stream& stream);

 private:
  double last_us_ = -1;  // time on the device of the last call that ran directly; negative if none did
  StepSignature signature_;
  std::unique_ptr<cuda::Graph> graph_;
  int captures_ = 0;
};

}  // namespace tachy::runtime
