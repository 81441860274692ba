// Shows what a run will take, for --plan.
#pragma once

#include "api/predict.h"
#include "api/tachyscope.h"

namespace tachy::cli {

// Prints a table, or one line of JSON. The `request` has its defaults filled in.
void show_plan(const VideoPlan& plan, const VideoRequest& request, bool as_json);
void show_predicted(const PredictedRun& run, bool as_json);

}  // namespace tachy::cli
