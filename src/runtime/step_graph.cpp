#include "runtime/step_graph.h"

namespace tachy::runtime {

void StepGraph::run(Stream& stream, const std::function<void()>& body) {
  if (!enabled_ || !stream.gpu || stream.measuring() || ++calls_ == 1) return body();
  if (!graph_) graph_ = cuda::capture(*stream.gpu, body);
  graph_->launch();
}

}  // namespace tachy::runtime
