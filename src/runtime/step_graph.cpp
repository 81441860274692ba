#include "runtime/step_graph.h"

#include "runtime/pace.h"

namespace tachy::runtime {

void StepGraph::run(Stream& stream, const std::function<void()>& body) {
  if (!enabled_ || !stream.gpu || stream.measuring()) return body();
  const bool is_short = last_us_ >= 0 && (last_us_ <= kLongestUs || !paced());
  if (!graph_ && !is_short) {
    last_us_ = cuda::device_us(*stream.gpu, body);
    return;
  }
  if (!graph_) graph_ = cuda::capture(*stream.gpu, body);
  graph_->launch();
}

}  // namespace tachy::runtime
