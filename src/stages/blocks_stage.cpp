// The denoise stage of a video that is made block by block: a block's frames are decoded and handed out
// before the next block begins.
#include <algorithm>
#include <optional>
#include <utility>

#include "denoise/block_frames.h"
#include "denoise/rank_seats.h"
#include "denoise/ranks_causal.h"
#include "denoise/rollout.h"
#include "ops/elementwise/elementwise.h"
#include "session/session.h"
#include "stages/by_rows.h"
#include "stages/stages.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// `seat` is null if there is one rank, or if the ranks are not GPUs of this process.
std::unique_ptr<CausalDenoiser> make_causal_denoiser(const Job& job, Session& session, const Sampler& sampler,
                                                     const RankSeat* seat, const Bring& bring) {
  const int rank = seat && !session.measuring() ? seat->rank : 0;
  Stream& stream = rank > 0 ? session.devices()->place(rank).stream : session.stream();
  const ProfileRange hoisted(stream.hooks.profiler, "hoisted", ProfileKind::group);
  const VideoRequest& r = job.request.request;
  const Tensor& x = job.shared.latents;
  const int64_t frames = x.dim(1),
                window = r.block_window > 0 ? std::min<int64_t>(r.block_window, frames) : frames;
  const LoadedDit& network = rank > 0 ? session.transformer_of(0, rank) : session.transformer(0);
  CausalInput in{.network = network.model.get(),
                 .weights = session.model().transformer_of(0).get(),
                 .timesteps = sampler.schedule().timesteps,
                 .text = bring ? bring(job.shared.text) : job.shared.text,
                 .text_rows = r.max_text_tokens,
                 .window = {.frames = window},
                 .z = x.dim(0),
                 .height = x.dim(2),
                 .width = x.dim(3),
                 .block_lengths = block_lengths(frames, r.block, r.block),
                 .shelf = rank > 0 ? session.rank_shelf(0, rank) : session.denoiser_shelf(0),
                 .few_in_eight_bits = r.int8_keys == "all",
                 .graphs = session.graph(0) != nullptr,
                 .ranks = session.ranks(),
                 .seat = seat,
                 .crew = session.crew(),
                 .crew_layout = session.asked_of_crew()};
  in.sinusoid = job.request.sinusoid;
  return std::make_unique<CausalDenoiser>(in, stream);
}

// The denoiser, and the seats of its ranks if several GPUs divide its passes.
struct Made {
  std::optional<RankSeats> seats;
  std::unique_ptr<BlockDenoiser> denoiser;
};

void make_on_gpus(const Job& job, Session& session, const Sampler& sampler, Made& made) {
  const WanConfig& c = session.model().dit;
  const Tensor& x = job.shared.latents;
  const int64_t places = x.dim(2) / c.patch_h * (x.dim(3) / c.patch_w);
  RankSeats& seats = made.seats.emplace(session.layout_of_gpus(1, std::min(places, c.num_heads)), 0, session);
  std::vector<std::unique_ptr<CausalDenoiser>> ranks(static_cast<size_t>(seats.layout().count()));
  seats.run([&](int rank) {
    const Bring bring = rank > 0 && !seats.measuring() ? seats.settle(rank) : Bring();
    ranks[static_cast<size_t>(rank)] = make_causal_denoiser(job, session, sampler, &seats.seat(rank), bring);
  });
  made.denoiser = std::make_unique<RanksCausal>(
      std::move(ranks), [&seats](const std::function<void(int)>& body) { seats.run(body); });
}

void make_denoiser(const Job& job, Session& session, const Sampler& sampler, Made& made) {
  if (session.gpu_ranks() > 1) return make_on_gpus(job, session, sampler, made);
  made.denoiser = make_causal_denoiser(job, session, sampler, nullptr, {});
}

// Reports the state after each block except the last: a run that resumes there makes the keys and frames of
// the finished blocks again.
void report_blocks(const Job& job, Session& session, int64_t finished) {
  const VideoCallbacks* callbacks = session.callbacks();
  const Tensor& x = job.shared.latents;
  const int64_t all = x.dim(1) / job.request.request.block;
  if (session.measuring() || finished == all || !callbacks || !callbacks->state) return;
  if (callbacks->wants_state && !callbacks->wants_state({finished, all})) return;
  std::vector<float> values(static_cast<size_t>(x.numel()));
  download(x, values.data(), session.stream());
  callbacks->state({finished, all, values, {}, job.noise->save()});
}

// Lets the ranks divide the rows of each latent frame, if that is worth it.
void divide_rows(Session& session, RankSeats& seats, BlockFrames::Input& in) {
  const int ranks = gpus_of_block_rows(in.vae->config(), in.height, in.width, seats.layout().count());
  if (ranks == 1) return;
  in.seat = &seats.seat(0);
  in.further.resize(static_cast<size_t>(ranks) - 1);
  in.run = [&seats](const std::function<void(int)>& body) { seats.run(body); };
  seats.run([&](int rank) {
    if (rank == 0) return;
    const VaeDecoder* const vae = seats.measuring() ? in.vae : session.vae_decoder_of(rank).model.get();
    in.further.at(static_cast<size_t>(rank) - 1) = {vae, &seats.stream(rank), &seats.seat(rank)};
  });
}

// While it exists, the streams of all ranks lack the transformer's adapters.
class WithoutAdapters {
 public:
  WithoutAdapters(Session& session, RankSeats* seats) {
    put_aside(session.stream());
    if (!seats || seats->measuring()) return;
    for (int rank = 1; rank < seats->layout().count(); ++rank) put_aside(seats->stream(rank));
  }
  ~WithoutAdapters() {
    for (const auto& [stream, adapters] : aside_) stream->adapters = adapters;
  }
  WithoutAdapters(const WithoutAdapters&) = delete;
  WithoutAdapters& operator=(const WithoutAdapters&) = delete;

 private:
  void put_aside(Stream& stream) { aside_.emplace_back(&stream, std::exchange(stream.adapters, nullptr)); }
  std::vector<std::pair<Stream*, const Adapters*>> aside_;
};

// Turns the noise in the job's latents into the video's latents, in place. Returns the bytes of Buffers that
// it held, including the parts', without the denoiser's.
uint64_t denoise_blocks(const Job& job, Session& session, const Sampler& sampler, Made& made) {
  const VideoRequest& r = job.request.request;
  const Tensor& x = job.shared.latents;
  Stream& stream = session.stream();
  const VideoCallbacks* callbacks = session.callbacks();
  std::optional<BlockFrames> frames;
  RankSeats* const seats = made.seats ? &*made.seats : nullptr;
  if (session.makes_frames()) {
    BlockFrames::Input in{.vae = session.vae_decoder().model.get(),
                          .height = x.dim(2),
                          .width = x.dim(3),
                          .frames = x.dim(1),
                          .steps = sampler.steps(),
                          .graphs = session.graph(0) != nullptr};
    if (seats) divide_rows(session, *seats, in);
    frames.emplace(in, stream);
  }
  const auto show = [&](const Tensor& block) {
    if (!frames) return;
    const WithoutAdapters own(session, seats);
    frames->decode(block, callbacks ? callbacks->frame : nullptr);
    frames->begin_block();  // begins the next block
  };
  const auto finished = [&](const Tensor& block, int64_t first) {
    const int64_t end = first + block.dim(1);
    ops::copy({.x = block, .y = x.slice(1, first, end)}, stream);
    show(block);
    report_blocks(job, session, end / r.block);
    return true;
  };
  const int64_t known = job.resume ? job.resume->step * r.block : 0;
  for (int64_t first = 0; first < known; first += r.block) show(x.slice(1, first, first + r.block));
  const uint64_t held = rollout({.sampler = &sampler,
                                 .blocks = block_lengths(x.dim(1), r.block, r.block),
                                 .latent_shape = {x.dim(0), x.dim(2), x.dim(3)},
                                 .given = known > 0 ? x.slice(1, 0, known) : Tensor(),
                                 .start = x.slice(1, known, x.dim(1)),
                                 .noise = job.noise,
                                 .callbacks = callbacks,
                                 .preview_factors = &session.model().preview_factors,
                                 .marks = frames ? frames->marks() : nullptr,
                                 .finished = finished},
                                *made.denoiser, stream);
  const uint64_t all = session.part_bytes() + held + (frames ? frames->bytes() : 0);
  if (!frames) return all;
  frames.reset();  // destroyed before the decoder
  session.give_back(Part::vae_decoder);
  if (seats && !seats->measuring() && !session.placement().keeps) session.devices()->leave_vae();
  return all;
}

class BlocksStage final : public Stage {
 public:
  const char* name() const override { return "denoise"; }
  uint64_t mapped_bytes(const ModelBundle& model, const Job&) const override {
    return model.mapped_transformer_bytes() + model.vae->mapped_bytes();
  }

  uint64_t run(Job& job, Session& session) const override {
    session.transformer(0);  // loaded before the range begins
    const ProfileRange range(session.stream().hooks.profiler, "denoise", ProfileKind::group);
    const WithAdapters added(session);
    std::optional<Made> made(std::in_place);
    make_denoiser(job, session, job.request.sampler, *made);
    const uint64_t own = made->denoiser->bytes() + session.adapter_bytes(0),
                   first = session.part_bytes() + own;
    const uint64_t held = own + denoise_blocks(job, session, job.request.sampler, *made);
    made.reset();
    session.drop_adapters(0);
    session.give_back(Part::transformer, "after the last step");
    return std::max(first, held);
  }

 private:
  struct WithAdapters {
    explicit WithAdapters(Session& of) : session(of) { session.add_adapters(0); }
    ~WithAdapters() { session.stream().adapters = nullptr; }
    WithAdapters(const WithAdapters&) = delete;
    WithAdapters& operator=(const WithAdapters&) = delete;
    Session& session;
  };
};

}  // namespace

std::unique_ptr<Stage> make_blocks_stage() { return std::make_unique<BlocksStage>(); }

}  // namespace tachy
