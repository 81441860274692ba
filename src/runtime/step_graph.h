// A step as a CUDA graph: the first call of a shape runs as it is (libraries choose their kernels then), the
// second is captured, the ones after that are one launch each. What the step reads and writes must lie at the
// same addresses every time; what changes from step to step is copied into fixed tensors before.
//
// The graph may outlive the job it was captured in: a later job whose step has the same signature (addresses,
// shapes, precision, weights, adapters) launches it from its first step on. Another signature begins anew.
//
// A graph cannot be stopped, and where kernels are long it saves nothing: a step that takes longer than
// kLongestUs stays as it is, queued piece by piece (runtime/pace.h). Loading kernels counts in the first
// call; where that made it long, the second one is measured as well.
//
// Without a GPU, or on a queue that cannot be captured, every call just runs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cuda/graph.h"
#include "tensor/stream.h"

namespace tachy::runtime {

// All that a recorded step depends on.
class StepSignature {
 public:
  StepSignature& add(uint64_t value) {
    values_.push_back(value);
    return *this;
  }
  StepSignature& add(const Tensor& t);
  StepSignature& add(const Stream& stream);  // where its scratch begins, its precision and adapters
  bool operator==(const StepSignature&) const = default;

 private:
  std::vector<uint64_t> values_;
};

class StepGraph {
 public:
  static constexpr double kLongestUs = 200e3;

  // `body` queues the step's work on the stream and nothing else. It may be called again later, as long as
  // the graph lives: it holds what it needs.
  void run(Stream& stream, const StepSignature& signature, const std::function<void()>& body);
  void forget();

  int captures() const { return captures_; }  // so far
  int64_t nodes() const {
    return graph_ ? static_cast<int64_t>(graph_->nodes()) : 0;
  }  // 0 before the capture
  std::vector<std::string> names() const { return graph_ ? graph_->names() : std::vector<std::string>(); }

  // Whether the stream is one whose steps can be recorded.
  static bool possible(const Stream& stream);

 private:
  double last_us_ = -1;  // of the last call that ran as it is, on the device; negative: none did
  StepSignature signature_;
  std::unique_ptr<cuda::Graph> graph_;
  int captures_ = 0;
};

}  // namespace tachy::runtime
