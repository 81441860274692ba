// The sound of two people who speak in one video: the sum of their sounds.
#pragma once

#include "media/sound/sound_reader.h"

namespace tachy {

// Brings the sound with the lower rate to the other one's rate. With in_turn, the second sound begins where
// the first ends; otherwise both begin together. If the sum exceeds full scale, all of it is made quieter, so
// that nothing is clipped.
Sound mixed(const Sound& first, const Sound& second, bool in_turn);

}  // namespace tachy
