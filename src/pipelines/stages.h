// What the stages of a generation are made of. Each stage is a piece of code that runs twice: once in a
// measure run (nothing allocated, nothing computed; it yields the plan) and once for real, with an arena of
// exactly the planned size.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "models/umt5/umt5_encoder.h"
#include "models/wan/dit.h"
#include "models/wan_vae/wan_vae.h"
#include "pipelines/model_bundle.h"
#include "samplers/sampler.h"
#include "text/tokenizer.h"

namespace tachy {

// Tells the caller how far a stage is; knows the time per step so far.
class StageClock {
 public:
  // already: steps that an earlier process did.
  StageClock(const VideoCallbacks* callbacks, std::string stage, int64_t total, int64_t already = 0);
  void done(int64_t count);  // steps finished so far

 private:
  const VideoCallbacks* callbacks_;
  std::string stage_;
  int64_t total_, already_;
  double start_;
};

double monotonic_seconds();

// Token ids of a prompt, cut to its real length (the end-of-sequence token included).
std::vector<int64_t> prompt_ids(const Tokenizer& tokenizer, const std::string& prompt, int max_tokens);

// Of `blocks` equal blocks of block_bytes, `streamed` do not stay on the device but lie on the host
// (runtime/block_stream.h).
struct BlockPlan {
  int64_t blocks = 0, streamed = 0;
  uint64_t block_bytes = 0, host_bytes = 0;
};

struct LoadedText {
  std::unique_ptr<Umt5Encoder> model;
  std::shared_ptr<const void> memory;
  uint64_t bytes = 0;
  BlockPlan blocks;
};
struct LoadedDit {
  std::unique_ptr<WanDit> model;
  std::shared_ptr<const void> memory;
  uint64_t bytes = 0;
  BlockPlan blocks;
};
struct LoadedVae {
  std::unique_ptr<VaeDecoder> model;
  uint64_t bytes = 0;
};

// The transformers of a model that are loaded now: one, or of two experts one or both.
struct LoadedTransformers {
  std::array<LoadedDit, 2> parts;
  uint64_t bytes() const { return parts[0].bytes + parts[1].bytes; }
  uint64_t host_bytes() const { return parts[0].blocks.host_bytes + parts[1].blocks.host_bytes; }
};

enum class WeightMode { automatic, packed, mapped };

// What a loading stage reports: blocks done, of how many.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

// With a measuring arena they load nothing and count.
LoadedText load_text(const ModelBundle& model, Stream& stream, int64_t streamed = 0);
// part: 0, or of two experts 0 the high-noise one and 1 the low-noise one.
LoadedDit load_dit(const ModelBundle& model, int part, WeightMode mode, Stream& stream, int64_t streamed = 0,
                   const LoadProgress& progress = {});
LoadedVae load_vae(const ModelBundle& model, Stream& stream);

SamplerConfig sampler_config(const VideoRequest& request);

// ids → text [ids, d_model] f32 (storage of the caller's). Throws numerical when it holds NaN or Inf.
void encode_text(const Umt5Encoder& model, std::span<const int64_t> ids, const Tensor& text, Stream& stream);

// Latents as small pictures (frames side by side): x0 through the model's linear preview factors.
struct Preview {
  std::vector<uint8_t> rgb;
  int width = 0, height = 0;
};
Preview latent_preview(const Tensor& denoised, const std::vector<float>& factors);

}  // namespace tachy
