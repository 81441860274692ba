// The sound of two people who speak in one video: the sum of their sounds.
#pragma once

#include "media/sound/sound_reader.h"

namespace tachy {

// The sound with the lower rate is brought to the other's. in_turn: the second one begins where the first one
// ends; otherwise both begin together. If the sum exceeds full scale, it is made quieter as a whole, so that
// nothing is clipped.
Sound mixed(const Sound& first, const Sound& second, bool in_turn);

}  // namespace tachy
