// A claim says what a job may take at its peak. For several jobs together, parts that they share count once.
#pragma once

#include <map>
#include <span>
#include <thread>

#include "request/request.h"
#include "session/part_cache.h"

namespace tachy {

inline constexpr uint64_t kGpuLibraryBytes = uint64_t{400} << 20;  // memory of cuBLASLt, cuDNN and kernels

struct Claim {
  // A job ends by itself, so others may wait for it. A world stays until somebody closes it, so nobody waits
  // for a world to end. Where ModelOptions::waits_for_worlds is set, a world is taken for a job.
  enum class Of { plan, job, world };

  uint64_t peak = 0;                  // bytes at its worst moment, if it runs alone
  uint64_t own = 0;                   // the share that no other job uses
  std::map<PartKey, uint64_t> parts;  // parts that it may hold, with their bytes
  uint64_t host = 0;                  // page-locked memory on the host
  Of of = Of::job;
  std::thread::id thread{};  // runs the job and its callbacks
};

// `base` has the bytes that the plan counts in shared_bytes but that the model holds once for all jobs (files
// that were read).
Claim claim_of(const VideoPlan& plan, const Precision& precision, uint64_t base,
               Products vae = Products::as_activations);

// Returns an upper bound of what jobs hold at once. kept(except) gives the bytes of the parts that stay
// though no job holds them, without those in `except`.
using KeptBytes = std::function<uint64_t(const std::set<PartKey>& except)>;
uint64_t bytes_together(std::span<const Claim> claims, const KeptBytes& kept);

std::set<PartKey> parts_of(std::span<const Claim> claims);

}  // namespace tachy
