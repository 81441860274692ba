// The stages that there are; one file each.
#pragma once

#include <memory>

#include "session/stage.h"

namespace tachy {

std::unique_ptr<Stage> make_text_stage();
std::unique_ptr<Stage> make_image_embeds_stage();
std::unique_ptr<Stage> make_speech_stage();
std::unique_ptr<Stage> make_image_stage();
std::unique_ptr<Stage> make_denoise_stage();
std::unique_ptr<Stage> make_decode_stage();
std::unique_ptr<Stage> make_motion_stage();

}  // namespace tachy
