// Measures how fast a CPU multiplies, for estimates of time.
#pragma once

#include "base/thread_pool.h"
#include "tensor/hooks.h"
#include "tensor/precision.h"

namespace tachy {

// Returns the multiply-adds (times two) per second of a linear layer in that precision, measured within some
// hundredths of a second. `hooks` are for the measure run before it.
double cpu_products_per_second(ThreadPool& pool, const Precision& precision, const Hooks& hooks = {});

}  // namespace tachy
