// All stages, with one file each. A request's course chooses and orders its stages (engine/courses/course.h).
#pragma once

#include <functional>
#include <memory>

#include "session/stage.h"

namespace tachy {

struct ClipInput;
struct FramesOut;

// Adds inputs to the denoiser of a clip that only this course has. They are where here() returns the job's tensors.
using Here = std::function<Tensor(const Tensor&)>;
using AddToClip = void (*)(const Job& job, const Here& here, ClipInput& clip);
// Chooses the frames that a course hands out.
using FramesOutOf = FramesOut (*)(const Job& job, Stream& stream);

std::unique_ptr<Stage> make_text_stage();
std::unique_ptr<Stage> make_image_embeds_stage();
std::unique_ptr<Stage> make_speech_stage();
std::unique_ptr<Stage> make_image_stage();
std::unique_ptr<Stage> make_footage_stage();
std::unique_ptr<Stage> make_denoise_stage(AddToClip add = nullptr);
std::unique_ptr<Stage> make_decode_stage(FramesOutOf out = nullptr);  // null: all frames
std::unique_ptr<Stage> make_motion_stage();
// These replace denoise and decode if each block's frames are handed out with it: the first one denoises and
// decodes block by block, the second one shows the latents.
std::unique_ptr<Stage> make_blocks_stage();
std::unique_ptr<Stage> make_latents_stage();

}  // namespace tachy
