// Makes the whole clip at once. The stages are text, for a picture image-embeds (if the model looks at it
// through CLIP) and image, then denoise and decode. A run that resumes after its last step has only decode.
#include "engine/courses/course.h"
#include "stages/by_rows.h"
#include "stages/stages.h"

namespace tachy {
namespace {

class ClipCourse final : public Course {
 public:
  bool fits(const ResolvedRequest&) const override { return true; }
  const char* name() const override { return "a clip"; }

  std::vector<StagePlan> walk(Job& job, Session& session) const override {
    std::vector<StagePlan> out;
    if (!job.resume || !denoised(*job.resume, job.request)) {
      for (const auto& stage : stages_of_inputs(job)) out.push_back(session.run(*stage, job));
      out.push_back(session.run(*make_denoise_stage(), job));
    }
    const Tensor& latents = job.shared.latents;
    const bool together = crew_decodes_by_rows(session, latents.dim(2), latents.dim(3));
    const auto rest = [&] {
      if (session.crew() && !session.measuring()) session.crew()->rest();
    };
    if (!together) rest();
    if (session.makes_frames() || together) out.push_back(session.run(*make_decode_stage(), job));
    if (together) rest();
    return out;
  }
};

}  // namespace

const Course& clip_course() {
  static const ClipCourse course;
  return course;
}

}  // namespace tachy
