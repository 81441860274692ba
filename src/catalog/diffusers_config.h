// The JSON files of a model folder in diffusers' layout. A part's own file is used if it is in diffusers'
// dialect; otherwise one is made from the part's options.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "catalog/model_bundle.h"

namespace tachy {

nlohmann::json transformer_json(const ComponentFiles& files, const WanConfig& config);
nlohmann::json text_encoder_json(const ComponentFiles& files, const Umt5Config& config, DType dtype);
nlohmann::json image_encoder_json(const ComponentFiles& files, const ClipVisionConfig& config);
nlohmann::json image_processor_json(const ClipPreparation& preparation);
nlohmann::json vae_json(const ComponentFiles& files, const VaeConfig& config);
nlohmann::json scheduler_json(const ModelBundle& model);

// Names the parts that the model has; [null, null] stands for those that are missing.
nlohmann::json model_index_json(const ModelBundle& model, bool tokenizer);

}  // namespace tachy
