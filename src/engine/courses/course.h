// A course is the way in which a request's video is made: its stages, how they follow one another, the denoiser that they are given, and what only
// this way adds to a plan. The course of a request is found once (course_of), and nobody else asks its values which way it is made:
//
//   clip     the whole clip at once (clip_course.cpp)
//   talk     a talking photo, window by window, each of which begins with the last frames of the one before (talk_course.cpp)
//   blocks   block by block, each of which sees the blocks before it (blocks_course.cpp)
//
// A further one is a file here and a line in the table of course.cpp. How a model takes its inputs is its family (catalog/families/family.h).
#pragma once

#include "denoise/run_state.h"
#include "session/session.h"

namespace tachy {

class Course {
 public:
  virtual ~Course() = default;
  virtual bool fits(const ResolvedRequest& request) const = 0;

  // Adds the values that live across its stages, besides those that every course has.
  virtual void add_shared(Shared&, const ResolvedRequest&, const ModelBundle&, nn::ParamStore&) const {}
  // The values that a run begins with.
  virtual void draw(const Resolved& request, NoiseSource& noise, std::span<float> values) const;
  // One walk over its stages: for the plan in a measuring session, for the video in a computing one. It returns
  // the needs of each stage; in a computing session their names alone.
  virtual std::vector<StagePlan> walk(Job& job, Session& session) const = 0;
  // What the state of a run counts, which another run may go on from.
  virtual StateCounts state_counts(const Resolved& request, const Shared& shared) const;

  // Whether the transformer stays while other stages run between its passes.
  virtual bool comes_again(const Resolved&) const { return false; }
  // The GPU's memory to set aside for graphs, beyond what the libraries' share has room for.
  virtual uint64_t graph_bytes(const Resolved&, const WanConfig&) const { return 0; }
  // Says what would fit if a plan does not; null: fewer frames, as many as fit.
  virtual const char* would_fit() const { return nullptr; }
  // The name used in the refusal if ranks cannot divide its passes; null: they can.
  virtual const char* undivided() const { return nullptr; }
};

const Course& course_of(const ResolvedRequest& request);

const Course& clip_course();
const Course& talk_course();
const Course& blocks_course();

// The stages of text, pictures and speech, as far as the request has them: all that comes before the first denoising.
std::vector<std::unique_ptr<Stage>> stages_of_inputs(const Job& job);

}  // namespace tachy
