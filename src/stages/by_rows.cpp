#include "stages/by_rows.h"

#include <algorithm>

#include "base/env.h"
#include "runtime/crew.h"
#include "runtime/nobody_else.h"
#include "runtime/run_on_ranks.h"
#include "tensor/work_tally.h"

namespace tachy {
namespace {

int gpus_of_rows(Session& session, const VaeConfig& config, int64_t rows, int64_t columns) {
  if (session.gpu_ranks() == 1 || !gpus_decode_by_rows(config, rows, columns)) return 1;
  return static_cast<int>(std::min<int64_t>(session.gpu_ranks(), rows));
}

void measure(Session& session, int ranks, const DecodeRows& body) {
  const VaeDecoder& vae = *session.vae_decoder().model;
  Stream& stream = session.stream();
  const Hooks hooks = stream.hooks;
  for (int rank = 0; rank < ranks; ++rank) {
    runtime::NobodyElse comm(rank, ranks);
    if (rank == 0) {
      body(vae, stream, &comm);
      continue;
    }
    WorkTally aside;
    const WorkTally::Counting counting(aside);
    stream.hooks.flops = nullptr, stream.hooks.picks = nullptr;
    body(vae, stream, &comm);
    stream.hooks = hooks;
  }
}

void run_on_gpus(Session& session, int ranks, const DecodeRows& body) {
  struct Away {
    RankDevices& devices;
    bool keeps;
    ~Away() {
      devices.leave_scratch();
      if (!keeps) devices.leave_vae();
    }
  };
  RankDevices& devices = *session.devices();
  const Away later{devices, session.placement().keeps};
  const VaeDecoder& first = *session.vae_decoder().model;
  session.stream().memory->synchronize();  // the latents are there
  devices.enter(session.stream(), session.planned_scratch("decode"));
  runtime::PeerTeam& team = devices.team_of_rows(ranks);
  team.run([&](int rank) {
    team.comm(rank).set_careful(false);  // whatever a pass of the transformer has left
    if (rank == 0) return body(first, session.stream(), &team.comm(0));
    const VaeDecoder& vae = *session.vae_decoder_of(rank).model;
    Stream& stream = devices.place(rank).stream;
    const ProfileRange range(stream.hooks.profiler, "decode", ProfileKind::group);
    body(vae, stream, &team.comm(rank));
  });
}

// Returns those of a crew's processes that have rows, or nothing if this one has none.
std::unique_ptr<runtime::Comm> processes_with_rows(const Session& session, int64_t rows) {
  runtime::Crew& crew = *session.crew();
  const int ranks = static_cast<int>(std::min<int64_t>(crew.size(), rows));
  return crew.rank() < ranks ? crew.among(0, ranks) : nullptr;
}

}  // namespace

bool crew_decodes_by_rows(Session& session, int64_t rows, int64_t columns) {
  const runtime::Crew* const crew = session.crew();
  return crew && crew->size() > 1 && session.stream().memory &&
         gpus_decode_by_rows(session.model().vae_config, rows, columns, crew->on_one_host());
}

bool gpus_decode_by_rows(const VaeConfig& config, int64_t rows, int64_t columns, bool near) {
  const std::string text = env_string("TACHY_RANK_DECODE", "auto");
  require(text == "auto" || text == "first" || text == "rows",
          "TACHY_RANK_DECODE: expected auto, first or rows, got '{}'", text);
  if (text != "auto" || !near) return text == "rows";
  constexpr double kLeast = 3000, kPublished = 96;
  const double width = static_cast<double>(config.decoder_base_dim) / kPublished;
  return static_cast<double>(rows * columns) * width * width >= kLeast;
}

int gpus_of_block_rows(const VaeConfig& config, int64_t rows, int64_t columns, int gpus) {
  return gpus <= rows && gpus_decode_by_rows(config, rows, columns) ? gpus : 1;
}

void decode_by_rows(Session& session, int64_t latent_rows, int64_t latent_columns, const DecodeRows& body) {
  const VaeDecoder& vae = *session.vae_decoder().model;
  if (const int gpus = gpus_of_rows(session, vae.config(), latent_rows, latent_columns); gpus > 1)
    return session.measuring() ? measure(session, gpus, body) : run_on_gpus(session, gpus, body);
  if (crew_decodes_by_rows(session, latent_rows, latent_columns)) {
    const auto comm = processes_with_rows(session, latent_rows);
    if (comm) body(vae, session.stream(), comm.get());
    if (!session.measuring()) session.crew()->settle(session.stream());
    return;
  }
  runtime::run_on_rows(session.ranks(), latent_rows, session.stream(), [&](Stream& own, runtime::Comm* comm) {
    const bool other = comm && comm->rank() > 0;
    const ProfileRange range(other ? own.hooks.profiler : nullptr, "decode", ProfileKind::group);
    body(vae, own, comm);
  });
}

uint64_t decoder_state_bytes(Session& session, const VaeDecoder& vae, std::span<const int64_t> latent_shape) {
  const int64_t frames = latent_shape[1], rows = latent_shape[2], columns = latent_shape[3],
                chunk = session.placement().vae_latents;
  const int gpus = gpus_of_rows(session, vae.config(), rows, columns);
  if (crew_decodes_by_rows(session, rows, columns)) {
    Arena none;
    const Stream counting{.arena = &none, .pool = nullptr};
    const auto comm = processes_with_rows(session, rows);
    return comm ? align_up(vae.make_state(rows, columns, frames, counting, comm.get(), chunk).bytes) : 0;
  }
  if (gpus <= 1)
    return align_up(vae.state_bytes(rows, columns, frames, runtime::ranks_of_rows(session.ranks(), rows)));
  Arena none;
  const Stream counting{.arena = &none, .pool = nullptr};
  runtime::NobodyElse comm(0, gpus);
  return align_up(vae.make_state(rows, columns, frames, counting, &comm, chunk).bytes);
}

}  // namespace tachy
