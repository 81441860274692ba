// A request of the C interface (tachyscope_request_v2) as the engine takes it.
#pragma once

#include <map>
#include <string>

#include "api/tachyscope.h"
#include "api/tachyscope_c_v2.h"
#include "media/sound/sound_reader.h"

namespace tachy {

struct CFile {
  std::string path, sha256;
};

struct CRequest {
  VideoRequest request;
  Sound sounds[2];                     // what the speakers say, at its own rate, for the video's sound
  std::map<std::string, CFile> files;  // the inputs that are files, by the input's name
};

// Copies everything. Throws invalid_argument, naming the field, and what reading a file throws.
CRequest convert_request(const tachyscope_request_v2* in);

// Returns the sound of a video that lasts `seconds`; the second speaker begins after the first one with `in_turn`.
Sound sound_of_video(const Sound (&sounds)[2], bool in_turn, double seconds);

// Returns a sound as it is in the file, or as its samples are.
Sound convert_sound(const char* field, const tachyscope_sound& in);

}  // namespace tachy
