// What a run would take on a GPU that is not here.
#pragma once

#include "estimate/time_plan.h"
