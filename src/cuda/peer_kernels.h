// The kernels of a PeerGroup (peers.h).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/peers.h"

namespace tachy::cuda {

// A rank's memory that the others write to: told[p] is the last round that rank p has reached.
struct PeerFlags {
  uint32_t told[PeerGroup::kMostRanks];
  uint32_t round;  // this rank's own
};

// The word in the host's memory that ends all waits.
struct StopWord {
  static constexpr uint32_t kGo = 0, kStopped = 1,
                            kFirstRank = 2;  // from there on: the rank whose wait was too long
};

struct BarrierPlan {
  PeerFlags* flags[PeerGroup::kMostRanks];  // every rank's
  uint32_t* stop;
  int rank, size;
  uint64_t longest_ns;
};

// One launch pushes up to kMostPieces pieces. Widths, pitches and addresses are multiples of 16.
struct PushPlan {
  static constexpr int kMostPieces = 48;
  struct Piece {
    void* to;
    const void* from;
    uint32_t width, rows;  // width in units of 16 bytes
    size_t to_pitch, from_pitch;
    uint64_t first;  // how many units the pieces before it have
  };
  Piece pieces[kMostPieces];
  int count;
  uint64_t units;
};

void queue_barrier(const BarrierPlan& plan, cudaStream_t queue);
void queue_push(const PushPlan& plan, int blocks, cudaStream_t queue);

}  // namespace tachy::cuda
