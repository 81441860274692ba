// What a job may take at its worst moment, and what several take together: parts that they share count once.
#pragma once

#include <map>
#include <span>
#include <thread>

#include "request/request.h"
#include "session/part_cache.h"

namespace tachy {

inline constexpr uint64_t kGpuLibraryBytes = uint64_t{400} << 20;  // of cuBLASLt, cuDNN and kernels

struct Claim {
  // A job ends by itself, so others may wait for it. A world stays until somebody closes it: nobody waits for that.
  enum class Of { plan, job, world };

  uint64_t peak = 0;                  // alone
  uint64_t own = 0;                   // of it, what no other job shares
  std::map<PartKey, uint64_t> parts;  // which it may hold, with their bytes
  uint64_t host = 0;                  // page-locked on the host
  Of of = Of::job;
  std::thread::id thread{};  // in which a job runs, and its callbacks come
};

// base: what is planned in shared_bytes but held by the model, once for all jobs (files that were read).
Claim claim_of(const VideoPlan& plan, const Precision& precision, uint64_t base,
               Products vae = Products::as_activations);

// An upper bound of what jobs hold at once. kept(except): bytes of the parts that stay though no job holds
// them, but for these.
using KeptBytes = std::function<uint64_t(const std::set<PartKey>& except)>;
uint64_t bytes_together(std::span<const Claim> claims, const KeptBytes& kept);

std::set<PartKey> parts_of(std::span<const Claim> claims);

}  // namespace tachy
