// Work captured once and replayed: the same kernels on the same addresses for one launch. And device time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/gpu.h"

namespace tachy::cuda {

class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch() = 0;  // queued on the GPU's stream
  virtual size_t nodes() const = 0;
  // What the nodes are: kernels' names (short, without template arguments), "memset", "copy", "other".
  virtual std::vector<std::string> names() const = 0;
};

// What records work beside a GPU: a test's device on the host, which replays the calls it was given.
class GraphMaker {
 public:
  virtual ~GraphMaker() = default;
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& work) = 0;
};

// Runs `work`, whose kernels are recorded instead of run. Throws device when the work allocates, waits for
// the device or does anything else that cannot be replayed; exceptions of `work` end the capture and pass on.
// Other threads may do as they like meanwhile.
std::unique_ptr<Graph> capture(Gpu& gpu, const std::function<void()>& work);

// Microseconds on the device between the start and the end of what `work` queues; waits for it.
double device_us(Gpu& gpu, const std::function<void()>& work);

}  // namespace tachy::cuda
