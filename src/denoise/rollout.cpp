#include "denoise/rollout.h"

#include <algorithm>

#include "cuda/normals.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// Shows the velocities to an observer.
struct Watched : Denoiser {
  Watched(Denoiser& denoiser, const std::function<void(const Tensor&)>& who) : of(denoiser), show(who) {}
  void predict(const Tensor& latents, int step, const Tensor& velocity) override {
    of.predict(latents, step, velocity);
    if (show) show(velocity);
  }
  uint64_t bytes() const override { return of.bytes(); }
  Denoiser& of;
  const std::function<void(const Tensor&)>& show;
};

class Rollout {
 public:
  Rollout(const RolloutInput& in, BlockDenoiser& denoiser, Stream& stream)
      : in_(in), denoiser_(denoiser), stream_(stream), store_({}, stream) {
    if (in.marks) marks_ = *in.marks;
    // On the CPU a check needs no waiting, so each step is checked.
    late_ = in.marks || stream.memory;
    if (late_ && !in.marks) marks_ = FiniteMarks(store_.allocate(DType::i32, {in.sampler->steps() + 1}));
    if (in.callbacks) callbacks_ = *in.callbacks;
    callbacks_.state = nullptr;
    if (!in.preview_factors) callbacks_.preview = nullptr;
    if (!stream.gpu) return;
    const Tensor generator = store_.allocate(DType::i32, {cuda::kGeneratorWords});
    if (!stream.measuring() && in.noise) in.noise->make_on(generator);
  }
  ~Rollout() {
    if (in_.noise) in_.noise->make_on({});
  }
  Rollout(const Rollout&) = delete;
  Rollout& operator=(const Rollout&) = delete;

  uint64_t bytes() const { return store_.bytes() + most_; }

  void run() {
    const int64_t known = in_.given.defined() ? in_.given.dim(1) : 0;
    for (const int64_t frames : in_.blocks) {
      const int64_t first = denoiser_.end();
      const ProfileRange range(stream_.hooks.profiler, kBlockRange, ProfileKind::group, first);
      const Tensor latents = denoiser_.latents(frames);
      denoiser_.begin_block(frames, in_.script ? in_.script(first + frames) : WanScript{});
      if (first < known) {
        require(first + frames <= known,
                "rollout: {} latent frames are given, expected as many as whole blocks have", known);
        ops::copy({.x = in_.given.slice(1, first, first + frames), .y = latents}, stream_);
      } else {
        begin_with_noise(latents, first - known);
        denoise(latents);
        draw_ahead();
        if (late_ && !in_.marks) marks_.expect_steps(stream_);
        const bool goes_on = !in_.finished || in_.finished(latents, first);
        if (!goes_on && !stream_.measuring()) return;
      }
      denoiser_.remember(latents);
      ++block_;
    }
  }

 private:
  int64_t z() const { return in_.latent_shape.at(0); }
  int64_t height() const { return in_.latent_shape.at(1); }
  int64_t width() const { return in_.latent_shape.at(2); }

  void begin_with_noise(const Tensor& latents, int64_t first) {
    if (in_.start.defined())
      return ops::copy({.x = in_.start.slice(1, first, first + latents.dim(1)), .y = latents}, stream_);
    if (stream_.measuring()) return;
    in_.noise->fill(latents, stream_);
  }

  // Noise that the GPU does not make itself is made while the GPU is busy with the block before.
  void draw_ahead() {
    const auto next = static_cast<size_t>(block_ + 1);
    if (!stream_.memory || stream_.measuring() || next >= in_.blocks.size()) return;
    const auto values = static_cast<size_t>(z() * in_.blocks[next] * height() * width());
    std::vector<size_t> counts(in_.start.defined() ? 0 : 1, values);
    for (int i = 0; i < in_.sampler->steps(); ++i)
      if (in_.sampler->needs_noise(i)) counts.push_back(values);
    in_.noise->draw_ahead(std::move(counts));
  }

  void denoise(const Tensor& latents) {
    Watched watched(denoiser_, in_.predicted);
    if (late_ && !in_.marks) marks_.clear(stream_);
    shelf_.rewind();  // then a later block allocates nothing, and a captured pass finds its velocity
    DenoiseLoop loop({.sampler = in_.sampler,
                      .guidance = {{Branch{}}},
                      .latents = latents,
                      .noise = in_.noise,
                      .callbacks = &callbacks_,
                      .preview_factors = in_.preview_factors,
                      .window = block_,
                      .windows = static_cast<int64_t>(in_.blocks.size()),
                      .shelf = &shelf_,
                      .marks = late_ ? &marks_ : nullptr},
                     watched, stream_);
    loop.run();
    most_ = std::max(most_, loop.bytes());
  }

  const RolloutInput& in_;
  BlockDenoiser& denoiser_;
  Stream& stream_;
  nn::ParamStore store_;
  BufferShelf shelf_;  // provides the loops' tensors
  VideoCallbacks callbacks_;
  FiniteMarks marks_;  // marks for a block's steps
  bool late_ = false;  // whether the marks are read only when the block is done
  uint64_t most_ = 0;  // most bytes that a block's loop held
  int64_t block_ = 0;
};

}  // namespace

std::vector<int64_t> block_lengths(int64_t frames, int64_t block, int64_t first_block) {
  require(block >= 1 && first_block >= 1,
          "rollout: expected blocks of at least one latent frame, got {} and {}", first_block, block);
  require(frames >= first_block && (frames - first_block) % block == 0,
          "rollout: {} latent frames are not a block of {} and whole blocks of {}", frames, first_block,
          block);
  std::vector<int64_t> out = {first_block};
  out.resize(static_cast<size_t>(1 + (frames - first_block) / block), block);
  return out;
}

uint64_t rollout(const RolloutInput& in, BlockDenoiser& denoiser, Stream& stream) {
  Rollout run(in, denoiser, stream);
  run.run();
  return run.bytes();
}

}  // namespace tachy
