// Runs one part of a model by itself, outside any session: it is first measured, then computed in an arena of
// exactly that size. For single stages and the VAE's commands.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "tensor/stream.h"

namespace tachy {

struct SingleRun {
  int threads = 0;  // 0: all that this process may use
  std::string device = "cpu", level = "safe";
  std::string dtype;  // replaces the level's if it is not empty
  const std::atomic<bool>* cancel = nullptr;
};

// Runs body(stream) twice: with a measuring stream, then for real.
void run_planned(const SingleRun& how, const std::function<void(Stream&)>& body);

}  // namespace tachy
