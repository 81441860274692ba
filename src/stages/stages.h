// The stages that there are; one file each. Which of them a request has, and in which order, its course says (engine/courses/course.h).
#pragma once

#include <memory>

#include "session/stage.h"

namespace tachy {

struct ClipInput;
struct FramesOut;

// Adds a course's own values to the input of a clip's denoiser.
using AddToClip = void (*)(const Job& job, ClipInput& clip);
// Which of the frames a course hands out.
using FramesOutOf = FramesOut (*)(const Job& job, Stream& stream);

std::unique_ptr<Stage> make_text_stage();
std::unique_ptr<Stage> make_image_embeds_stage();
std::unique_ptr<Stage> make_speech_stage();
std::unique_ptr<Stage> make_image_stage();
std::unique_ptr<Stage> make_denoise_stage(AddToClip add = nullptr);
std::unique_ptr<Stage> make_decode_stage(FramesOutOf out = nullptr);  // null: all
std::unique_ptr<Stage> make_motion_stage();
// In their places where frames leave with their blocks: denoises and decodes block by block, and shows the latents.
std::unique_ptr<Stage> make_blocks_stage();
std::unique_ptr<Stage> make_latents_stage();

}  // namespace tachy
