// The presets of distilled models, for front ends that list them.
#pragma once

#include "request/presets.h"
