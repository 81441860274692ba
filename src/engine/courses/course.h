// A course is the way in which a request's video is made: its stages, their order, the denoiser that they
// use, and what only this way adds to a plan. A request's course is found once (course_of), and no other code
// examines the request to find out which way it is made:
//
//   clip     the whole clip at once (clip_course.cpp)
//   talk     a talking photo, window by window, each beginning with the last frames of the one before
//            (talk_course.cpp)
//   blocks   block by block, each of which sees the blocks before it (blocks_course.cpp)
//
// Another course is a file here and a line in the table of course.cpp. How a model takes its inputs depends
// on its family (catalog/families/family.h).
#pragma once

#include "denoise/run_state.h"
#include "session/session.h"

namespace tachy {

class Course {
 public:
  virtual ~Course() = default;
  virtual bool fits(const ResolvedRequest& request) const = 0;

  // Adds values that live across the stages of this course besides those that every course has.
  virtual void add_shared(Shared&, const ResolvedRequest&, const ModelBundle&, nn::ParamStore&) const {}
  // Draws the values with which a run begins.
  virtual void draw(const Resolved& request, NoiseSource& noise, std::span<float> values) const;
  // Walks over the course's stages once: for the plan in a measuring session, for the video in a computing
  // one. Returns what each stage took; a computing session does not measure it.
  virtual std::vector<StagePlan> walk(Job& job, Session& session) const = 0;
  // Returns what the state of a run counts, from which another run may resume.
  virtual StateCounts state_counts(const Resolved& request, const Shared& shared) const;

  // Says whether the transformer stays while other stages run between its passes.
  virtual bool comes_again(const Resolved&) const { return false; }
  // Returns the bytes of the GPU's memory to set aside for graphs, beyond what the libraries' share has room
  // for.
  virtual uint64_t graph_bytes(const Resolved&, const WanConfig&) const { return 0; }
  // Names a request that would fit if a plan does not; null: the same one with as many frames as fit.
  virtual const char* would_fit() const { return nullptr; }
  // Says whether ranks divide the tokens of every frame, since something in its passes looks at whole frames
  // or at a place in all of them. Otherwise each rank has neighbours in the clip.
  virtual bool divides_frames() const { return false; }
  // Says whether keys may go round among ranks (a `ring` of `parallel`).
  virtual bool has_ring() const { return true; }
  virtual const char* name() const = 0;  // of the course's video, for errors
};

const Course& course_of(const ResolvedRequest& request);

const Course& clip_course();
const Course& talk_course();
const Course& blocks_course();

// Returns the stages of text, pictures and speech that the request needs: all stages before the first
// denoising.
std::vector<std::unique_ptr<Stage>> stages_of_inputs(const Job& job);

}  // namespace tachy
