// The motion stage encodes the last frames of a talking photo's window into the latent frames with which the
// next window begins. They are encoded as a clip of their own.
#include "runtime/run_on_ranks.h"
#include "session/session.h"
#include "session/stage_clock.h"
#include "stages/stages.h"

namespace tachy {
namespace {

class MotionStage final : public Stage {
 public:
  const char* name() const override { return "motion"; }

  uint64_t mapped_bytes(const ModelBundle& model, const Job&) const override {
    return model.vae->mapped_bytes();
  }

  uint64_t run(Job& job, Session& session) const override {
    Stream& stream = session.stream();
    StageClock clock(session.callbacks(), "motion", job.request.talk.count() - 1, job.window);
    const VaeEncoder& encoder = *session.vae_encoder().model;
    const ProfileRange range(stream.hooks.profiler, "encode motion", ProfileKind::group);
    const Tensor& tail = job.shared.tail;
    const int64_t rows = job.request.latent_height;
    const auto source = [&](int64_t first, int64_t count) { return tail.slice(0, first, first + count); };
    runtime::run_on_rows(session.ranks(), rows, stream, [&](Stream& own, runtime::Comm* comm) {
      encoder.encode({tail.dim(0), tail.dim(1), tail.dim(2)}, source, job.shared.motion, Tensor(), own, comm,
                     {}, session.placement().encode_latents());
    });
    const int ranks = runtime::ranks_of_rows(session.ranks(), rows);
    const uint64_t held =
        session.part_bytes() + align_up(encoder.state_bytes(tail.dim(1), tail.dim(2), tail.dim(0), ranks));
    session.give_back(Part::vae_encoder);
    clock.done(job.window + 1);
    return held;
  }
};

}  // namespace

std::unique_ptr<Stage> make_motion_stage() { return std::make_unique<MotionStage>(); }

}  // namespace tachy
