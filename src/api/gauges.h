// The gauges behind `tachyscope validate`, `bench` and `doctor`,
// for the command line. Not part of the installed interface.
#pragma once

#include "inspect/bench.h"
#include "inspect/bench_optimisations.h"
#include "inspect/doctor.h"
#include "inspect/rollout_checks.h"
#include "inspect/validate.h"
