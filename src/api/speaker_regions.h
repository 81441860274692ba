// Converts the places of two speakers in a picture into masks of the tokens that show them in a latent frame.
#pragma once

#include <cstdint>
#include <vector>

#include "request/request.h"

namespace tachy {

// rows x columns is the grid of tokens. The request is resolved and holds the whole picture and the video's
// size. A token counts as what the picture shows at its first pixel. InfiniteTalk finds that by nearest
// resizing, first to the video's size, fitted like the picture, then to latents, then to tokens. Returns
// three masks one after the other: first speaker, second speaker, background. Throws invalid_argument if a
// speaker has no token.
std::vector<uint8_t> speaker_regions(const VideoRequest& request, int64_t rows, int64_t columns);

}  // namespace tachy
