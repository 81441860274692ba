// The image stage encodes a picture (and perhaps a last one) into what the transformer sees besides the noise
// (condition.h).
#include "session/session.h"
#include "session/stage_clock.h"
#include "stages/condition.h"
#include "stages/stages.h"

namespace tachy {
namespace {

class ImageStage final : public Stage {
 public:
  const char* name() const override { return "image"; }

  uint64_t mapped_bytes(const ModelBundle& model, const Job&) const override {
    return model.vae->mapped_bytes();
  }

  uint64_t run(Job& job, Session& session) const override {
    StageClock clock(session.callbacks(), "image", 1);
    Stream& stream = session.stream();
    const LoadedVaeEncoder& encoder = session.vae_encoder();
    const ProfileRange range(stream.hooks.profiler, "encode image", ProfileKind::group);
    const uint64_t held =
        session.part_bytes() + encode_condition(session.model(), *encoder.model, job.request,
                                                job.shared.condition, stream, session.ranks());
    clock.done(1);
    session.give_back(Part::vae_encoder);
    return held;
  }
};

}  // namespace

std::unique_ptr<Stage> make_image_stage() { return std::make_unique<ImageStage>(); }

}  // namespace tachy
