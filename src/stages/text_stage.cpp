// The text stage encodes prompts into embeddings. Prompts that are in the text cache need no encoder.
#include "stages/text_stage.h"

#include "ops/elementwise/elementwise.h"
#include "session/session.h"
#include "session/stage_clock.h"
#include "stages/stages.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

class TextStage final : public Stage {
 public:
  const char* name() const override { return "text"; }

  uint64_t mapped_bytes(const ModelBundle& model, const Job& job) const override {
    return job.prompts.encodes(job.request.guided) ? model.text_encoder->mapped_bytes() : 0;
  }

  uint64_t run(Job& job, Session& session) const override {
    const bool guided = job.request.guided;
    StageClock clock(session.callbacks(), "text", guided ? 2 : 1);
    const LoadedText* const encoder = job.prompts.encodes(guided) ? &session.text() : nullptr;
    const ProfileRange range(session.stream().hooks.profiler, "text encoder", ProfileKind::group);
    const Prompts& p = job.prompts;
    embed(p.positive, p.positive_text, p.positive_key, job.shared.text, encoder, session);
    clock.done(1);
    if (guided) {
      embed(p.negative, p.negative_text, p.negative_key, job.shared.negative, encoder, session);
      clock.done(2);
    }
    const uint64_t held = session.part_bytes();
    session.give_back(Part::text, "after the last pass");
    return held;
  }

 private:
  static void embed(const std::vector<int64_t>& ids, const std::vector<float>& known,
                    const std::optional<TextCache::Key>& key, const Tensor& out, const LoadedText* encoder,
                    Session& session) {
    Stream& stream = session.stream();
    if (!known.empty()) return upload(known.data(), out, stream);
    encode_text(*encoder->model, ids, out, stream);
    if (!key || session.measuring()) return;
    // If weights have changed since the key was made, or while the encoder used them, the key does not stand
    // for these weights.
    if (key->encoder != encoder->fingerprint || key->encoder != encoder_fingerprint(session.model())) return;
    std::vector<float> values(static_cast<size_t>(out.numel()));
    download(out, values.data(), stream);
    session.text_cache()->keep(*key, values);
  }
};

}  // namespace

void encode_text(const Umt5Encoder& model, std::span<const int64_t> ids, const Tensor& text, Stream& stream) {
  const auto count = static_cast<int64_t>(ids.size());
  const Tensor input(const_cast<int64_t*>(ids.data()), DType::i64, {1, count});  // the ids are only read
  model.forward(input, {}, text.view({1, count, text.dim(1)}), stream);
  check(ops::all_finite(text, stream), ErrorCode::numerical,
        "text encoder: the result holds NaN or Inf: its weights are damaged");
}

std::unique_ptr<Stage> make_text_stage() { return std::make_unique<TextStage>(); }

}  // namespace tachy
