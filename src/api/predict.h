// What a run would take on a GPU that is not here.
#pragma once

#include "pipelines/time_plan.h"
