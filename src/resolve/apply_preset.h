// Finds the row of a request's `preset` that fits a model, and fills in what the row says.
#pragma once

#include "catalog/model_bundle.h"
#include "request/presets.h"

namespace tachy {

// Returns the row of the request's `preset` that fits the model; null without a preset. Throws
// invalid_argument if none fits, and names those that would.
const PresetRow* preset_row(const ModelBundle& model, const VideoRequest& request);

// Fills in what the request leaves out, from the row of its `preset` that fits the model; does nothing
// without a preset. Throws as preset_row does.
void apply_preset(const ModelBundle& model, VideoRequest& request);

}  // namespace tachy
