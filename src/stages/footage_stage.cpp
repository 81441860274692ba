// The video stage encodes the videos and reference pictures of a request (footage.h).
#include "session/session.h"
#include "session/stage_clock.h"
#include "stages/footage.h"
#include "stages/stages.h"

namespace tachy {
namespace {

class FootageStage final : public Stage {
 public:
  const char* name() const override { return "video"; }

  uint64_t mapped_bytes(const ModelBundle& model, const Job&) const override {
    return model.vae->mapped_bytes();
  }

  uint64_t run(Job& job, Session& session) const override {
    const Shared& shared = job.shared;
    StageClock clock(session.callbacks(), "video", 1);
    Stream& stream = session.stream();
    const VaeEncoder& vae = *session.vae_encoder().model;
    const ProfileRange range(stream.hooks.profiler, "encode video", ProfileKind::group);
    const EncodeRun run{.ranks = session.ranks(), .latents = session.placement().encode_latents()};
    uint64_t states = 0;
    if (shared.start.defined()) states = encode_start(vae, job.request, shared.start, stream, run);
    if (shared.control.defined()) states = encode_control(vae, job.request, shared.control, stream, run);
    const uint64_t held = session.part_bytes() + states;
    clock.done(1);
    session.give_back(Part::vae_encoder);
    return held;
  }
};

}  // namespace

std::unique_ptr<Stage> make_footage_stage() { return std::make_unique<FootageStage>(); }

}  // namespace tachy
