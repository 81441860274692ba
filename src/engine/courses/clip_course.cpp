// Makes the whole clip at once. The stages are text, for a picture image-embeds (if the model looks at it
// through CLIP) and image, then denoise and decode. A run that resumes after its last step has only decode.
#include "engine/courses/course.h"
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
    if (session.crew() && !session.measuring()) session.crew()->rest();
    if (session.makes_frames()) out.push_back(session.run(*make_decode_stage(), job));
    return out;
  }
};

}  // namespace

const Course& clip_course() {
  static const ClipCourse course;
  return course;
}

}  // namespace tachy
