// The image-embeds stage encodes the pictures, prepared as the request asks, into what the transformer's
// image branch attends to (models/clip_vision). If the request gives embeddings, this stage is not needed.
#include "ops/elementwise/elementwise.h"
#include "session/session.h"
#include "session/stage_clock.h"
#include "stages/stages.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

class ImageEmbedsStage final : public Stage {
 public:
  const char* name() const override { return "image-embeds"; }

  uint64_t mapped_bytes(const ModelBundle& model, const Job&) const override {
    return model.image_encoder->mapped_bytes();
  }

  uint64_t run(Job& job, Session& session) const override {
    StageClock clock(session.callbacks(), "image-embeds", 1);
    const LoadedImageEncoder& encoder = session.image_encoder();
    const ProfileRange range(session.stream().hooks.profiler, "image encoder", ProfileKind::group);
    encode(*encoder.model, job.request, job.shared.image_embeds, session.stream());
    clock.done(1);
    const uint64_t held = session.part_bytes();
    session.give_back(Part::image_encoder, "after the last pass");
    return held;
  }

 private:
  static void encode(const ClipVision& model, const ResolvedRequest& r, const Tensor& embeds,
                     Stream& stream) {
    const ClipVisionConfig& c = model.config();
    const ArenaScope scope(*stream.arena);
    const Tensor pixels = stream.arena->f32({r.clip_pictures, 3, c.image_size, c.image_size});
    check(stream.measuring() || r.clip_pixels.size() == static_cast<size_t>(pixels.numel()),
          ErrorCode::internal, "image encoder: {} prepared values for pictures {}", r.clip_pixels.size(),
          shape_string(pixels));
    upload(r.clip_pixels.data(), pixels, stream);
    model.forward(pixels, embeds.view({r.clip_pictures, c.tokens(), c.hidden_size}), stream);
    check(ops::all_finite(embeds, stream), ErrorCode::numerical,
          "image encoder: the result holds NaN or Inf: its weights are damaged");
  }
};

}  // namespace

std::unique_ptr<Stage> make_image_embeds_stage() { return std::make_unique<ImageEmbedsStage>(); }

}  // namespace tachy
