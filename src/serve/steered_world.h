// The world that the page plays: a World (api/world.h), or in tests a drawn one that needs no model. It
// follows World's rules: start, reset and next_block belong to one thread; any thread may call act and stop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/world.h"

namespace tachy::serve {

class SteeredWorld {
 public:
  virtual ~SteeredWorld() = default;
  virtual const WorldInfo& info() const = 0;
  virtual std::string device() const = 0;
  virtual void start(const WorldStart& start) = 0;
  virtual void reset() = 0;
  virtual void act(const WorldAction& action, uint64_t stamp) = 0;
  virtual WorldBlock next_block(const std::function<void(const RgbImage& image, int64_t index)>& frame) = 0;
  virtual void stop() = 0;
};

std::unique_ptr<SteeredWorld> steered(World world);

}  // namespace tachy::serve
