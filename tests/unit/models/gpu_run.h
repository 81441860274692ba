// PlannedRun's counterpart on a GPU: it loads and runs a component in given dtypes, first in a measure run,
// then for real.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/gpu.h"
#include "nn/params.h"

namespace tachy::test {

struct GpuRun {
  cuda::Gpu& gpu;
  DType activation, residual;
  Products products = Products::as_activations;

  template <class Body>
  void operator()(Body&& body) {
    ThreadPool pool(2);
    Arena measure;
    Stream stream{.arena = &measure,
                  .pool = &pool,
                  .gpu = &gpu,
                  .memory = &gpu,
                  .precision = {.activation = activation, .residual = residual, .products = products}};
    nn::ParamStore planned({.plan_only = true}, stream);
    body(stream, planned);
    Arena arena(std::max<size_t>(measure.peak(), 1), &gpu);
    stream.arena = &arena;
    nn::ParamStore store({.plan_only = false}, stream);
    body(stream, store);
    gpu.synchronize();
    EXPECT_EQ(arena.peak(), measure.peak());
    EXPECT_EQ(planned.bytes(), store.bytes());
  }
};

}  // namespace tachy::test
