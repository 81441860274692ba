// Which implementation each op gets here, and why: gathered from the cases of all ops, told an op at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inspect/doctor.h"
#include "inspect/op_runner.h"
#include "request/level.h"

namespace tachy {

// The pick for one case.
struct CasePick {
  std::string op;
  Compute compute;
  ops::Choice choice;
  bool real = false;  // in the shape of a model
};

// What each op gets: in the shapes of models where it has cases of them, else in its small ones. Their
// tensors are made without values, of which no pick depends.
std::vector<CasePick> picks_here(cuda::Gpu* gpu, DType dtype, bool definitions, ThreadPool& pool);

// Fills what an op's health says about its pick.
void count_picks(std::map<std::string, OpHealth>& health, const std::vector<CasePick>& made,
                 const Mode& mode);

}  // namespace tachy
