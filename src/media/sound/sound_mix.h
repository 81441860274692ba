// The sound of two people who speak in one video: the sum of theirs.
#pragma once

#include "media/sound/sound_reader.h"

namespace tachy {

// The slower one is brought to the other's rate. in_turn: the second one begins where the first one ends; otherwise both begin
// together. A sum beyond full scale is made quieter as a whole, so that nothing is clipped.
Sound mixed(const Sound& first, const Sound& second, bool in_turn);

}  // namespace tachy
