// A step as a CUDA graph: the first call of a shape runs as it is (libraries choose their kernels then), the
// second is captured, the ones after that are one launch each. What the step reads and writes must lie at the
// same addresses every time; what changes from step to step is copied into fixed tensors before.
//
// A graph cannot be stopped, and where kernels are long it saves nothing: a step that takes longer than
// kLongestUs stays as it is, queued piece by piece (runtime/pace.h). Loading kernels counts in the first
// call; where that made it long, the second one is measured as well.
//
// Without a GPU, or when switched off, every call just runs.
#pragma once

#include <functional>
#include <memory>

#include "cuda/graph.h"
#include "tensor/stream.h"

namespace tachy::runtime {

class StepGraph {
 public:
  static constexpr double kLongestUs = 200e3;

  explicit StepGraph(bool enabled = true) : enabled_(enabled) {}

  // `body` queues the step's work on the stream and nothing else.
  void run(Stream& stream, const std::function<void()>& body);
  int64_t nodes() const {
    return graph_ ? static_cast<int64_t>(graph_->nodes()) : 0;
  }  // 0 before the capture

 private:
  bool enabled_;
  double last_us_ = -1;  // of the last call that ran as it is, on the device; negative: none did
  std::unique_ptr<cuda::Graph> graph_;
};

}  // namespace tachy::runtime
