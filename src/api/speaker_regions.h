// From where two speakers are in a picture to which tokens of a latent frame show them.
#pragma once

#include <cstdint>
#include <vector>

#include "request/request.h"

namespace tachy {

// rows x columns: the grid of tokens. The request is resolved, with the whole picture and the video's size. A token is what the
// picture shows at its first pixel, as InfiniteTalk comes to it by nearest resizing (to the video's size, fitted as the picture
// is, to latents, to tokens). Returns three masks one after the other: first speaker, second, background. Throws
// invalid_argument where a speaker has no token.
std::vector<uint8_t> speaker_regions(const VideoRequest& request, int64_t rows, int64_t columns);

}  // namespace tachy
