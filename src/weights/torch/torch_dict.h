// Which of a checkpoint's dicts is the model: training scripts keep it beside an optimizer, a schedule, counts of steps,
// configs, averaged weights and other models.
//
//   {"step": 1000, "generator": {…}, "generator_ema": {…}, "critic": {…}, "optimizer": {…}}      Self-Forcing, CausVid, DMD
//   {"module": {…}, "optimizer": …}   DeepSpeed;   {"state_dict": {…}, "epoch": …}   Lightning;   {"model": {…}, "ema": {…}}
#pragma once

#include <string>

#include "weights/torch/pickle_reader.h"

namespace tachy {

struct ModelDict {
  const PickleValue* dict = nullptr;
  std::string path;  // "generator_ema", "state_dict.generator"; "" where the whole file is the model
  std::string said;  // what people should know of the choice; "" where there was none
};

// Averaged weights come first, as in the inference scripts of those who keep them. Throws unsupported where there is no
// model (an optimizer's state is none), or where there are several under names that tell nothing.
ModelDict model_dict(const Pickle& pickle, const std::string& file);

// Also one of a kind that cannot be read.
bool is_tensor(const PickleValue& value);

}  // namespace tachy
