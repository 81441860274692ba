#include "runtime/step_graph.h"

#include "base/env.h"
#include "base/log.h"
#include "runtime/pace.h"
#include "tensor/hold.h"
#include "tensor/streaming_memory.h"

namespace tachy::runtime {
namespace {

cuda::GraphMaker* maker_of(const Stream& stream) { return dynamic_cast<cuda::GraphMaker*>(stream.memory); }

// Returns the time on the device. If it has no clock, every step counts as short.
double timed(const Stream& stream, const std::function<void()>& body) {
  if (stream.gpu) return cuda::device_us(*stream.gpu, body);
  body();
  return 0;
}

std::unique_ptr<cuda::Graph> captured(Stream& stream, const std::function<void()>& body) {
  const NoHold in_one_go;
  if (!stream.gpu) return maker_of(stream)->capture(body);
  const auto* device = StreamingMemory::of(stream.memory);
  const size_t before = device->free_bytes();
  auto graph = cuda::capture(*stream.gpu, body);
  const size_t after = device->free_bytes();  // an estimate, since others may take memory meanwhile
  log_topic("graph", "{} nodes, {} of the GPU's memory", graph->nodes(),
            human_bytes(before > after ? before - after : 0));
  return graph;
}

}  // namespace

StepSignature& StepSignature::add(const Tensor& t) {
  add(reinterpret_cast<uintptr_t>(t.data)).add(static_cast<uint64_t>(t.dtype));
  for (const int64_t dim : t.shape()) add(static_cast<uint64_t>(dim));
  return *this;
}

StepSignature& StepSignature::add(const Stream& stream) {
  const Precision& p = stream.precision;
  add(reinterpret_cast<uintptr_t>(stream.arena->bytes(0)))
      .add(static_cast<uint64_t>(p.activation))
      .add(static_cast<uint64_t>(p.residual))
      .add(static_cast<uint64_t>(p.compute))
      .add(p.definitions)
      .add(p.attention_int8)
      .add(static_cast<uint64_t>(p.products))
      .add(stream.without.signature());
  if (stream.adapters)
    values_.insert(values_.end(), stream.adapters->layout().begin(), stream.adapters->layout().end());
  return *this;
}

bool StepGraph::possible(const Stream& stream) {
  if (stream.without.has(Optimisation::graphs)) return false;
  return stream.gpu ? stream.gpu->captures() : maker_of(stream) != nullptr;
}

void StepGraph::forget() {
  graph_.reset();
  signature_ = {}, last_us_ = -1;
}

void StepGraph::run(Stream& stream, const StepSignature& signature, const std::function<void()>& body,
                    const Agree& agree) {
  if (stream.measuring() || !possible(stream)) return body();
  const auto most = [&](double mine) { return agree ? agree(mine) : mine; };
  if (most(signature != signature_ ? 1 : 0) > 0) {
    forget();
    signature_ = signature;
  }
  const bool is_short =
      last_us_ >= 0 && (agree ? last_us_ <= kLongestOfRanksUs : last_us_ <= kLongestUs || !paced());
  if (!graph_ && !is_short) {
    last_us_ = most(timed(stream, body));
    return;
  }
  if (!graph_) {
    graph_ = captured(stream, body);
    ++captures_;
    most(0);  // no rank launches before all have their graph: making one may stop a device
  }
  graph_->launch();
}

}  // namespace tachy::runtime
