// Work that is captured once and replayed by one launch, with the same kernels on the same addresses; also
// measures time on the device.
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
  virtual void launch() = 0;  // queues it on the GPU's stream
  virtual size_t nodes() const = 0;
  // The names of the nodes: kernels (short, without template arguments), "memset", "copy", "other".
  virtual std::vector<std::string> names() const = 0;
};

// Records work without a GPU. A test's device on the host uses it to replay the calls that it was given.
class GraphMaker {
 public:
  virtual ~GraphMaker() = default;
  virtual std::unique_ptr<Graph> capture(const std::function<void()>& work) = 0;
};

// Runs `work`, whose kernels are recorded and not run. Throws `device` if the work allocates, waits for the
// device or does anything else that cannot be replayed; exceptions of `work` end the capture and pass
// through. Other threads are not restricted meanwhile.
std::unique_ptr<Graph> capture(Gpu& gpu, const std::function<void()>& work);

// Microseconds on the device between the start and the end of the work that `work` queues; waits for it.
double device_us(Gpu& gpu, const std::function<void()>& work);

}  // namespace tachy::cuda
