// One part of a model run by itself, outside any session: measured first, then computed in an arena of exactly
// that size. For single stages and the VAE's commands.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "tensor/stream.h"

namespace tachy {

struct SingleRun {
  int threads = 0;  // 0: all that this process may use
  std::string device = "cpu", level = "safe";
  std::string dtype;  // in place of the level's, or ""
  const std::atomic<bool>* cancel = nullptr;
};

// body(stream) runs twice: with a measuring stream, then for real.
void run_planned(const SingleRun& how, const std::function<void(Stream&)>& body);

}  // namespace tachy
