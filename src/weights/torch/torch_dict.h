// Finds the model among a checkpoint's dicts. Training scripts store it beside an optimizer, a schedule,
// counts of steps, configs, averaged weights and other models.
//
//   {"step": 1000, "generator": {…}, "generator_ema": {…}, "critic": {…}, "optimizer": {…}}      Self-Forcing, CausVid, DMD
//   {"module": {…}, "optimizer": …}   DeepSpeed;   {"state_dict": {…}, "epoch": …}   Lightning;   {"model": {…}, "ema": {…}}
#pragma once

#include <string>

#include "weights/torch/pickle_reader.h"

namespace tachy {

struct ModelDict {
  const PickleValue* dict = nullptr;
  std::string path;  // "generator_ema", "state_dict.generator"; "" if the whole file is the model
  std::string said;  // a note for people on the choice, or ""
};

// Averaged weights are preferred, as in the inference scripts of projects that keep them. Throws unsupported
// if there is no model (an optimizer's state is not one), or if there are several whose names do not tell
// which is meant.
ModelDict model_dict(const Pickle& pickle, const std::string& file);

// Also returns true for a tensor of a kind that cannot be read.
bool is_tensor(const PickleValue& value);

}  // namespace tachy
