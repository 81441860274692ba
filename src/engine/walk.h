// A request's stages in order, and the one walk over them: for the plan in a measuring session, for the video
// in a computing one.
#pragma once

#include "session/session.h"

namespace tachy {

using Stages = std::vector<std::unique_ptr<Stage>>;

// Text, with a picture image-embeds (where the model looks at it through CLIP), speech and image, denoise, decode; of a run
// that goes on after its last step only the last. A talking photo repeats the last two for each window, and motion between them.
Stages video_stages(const Job& job);

// What each stage took; in a computing session their names alone.
std::vector<StagePlan> walk(Job& job, Session& session);

}  // namespace tachy
