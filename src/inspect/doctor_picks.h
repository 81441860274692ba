// Finds out which implementation each op gets here, and why, from the cases of all ops; reports it op by op.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inspect/doctor.h"
#include "inspect/op_runner.h"
#include "request/level.h"

namespace tachy {

// The implementation chosen for one case.
struct CasePick {
  std::string op;
  Compute compute;
  ops::Choice choice;
  bool real = false;  // whether the case has the shape of a model
};

// Returns each op's choices for the shapes of models if it has such cases, otherwise for its small ones. The
// tensors are made without values, because no choice depends on them.
std::vector<CasePick> picks_here(cuda::Gpu* gpu, DType dtype, bool definitions, ThreadPool& pool);

// Fills in the part of an op's health that describes its implementation.
void count_picks(std::map<std::string, OpHealth>& health, const std::vector<CasePick>& made,
                 const Mode& mode);

}  // namespace tachy
