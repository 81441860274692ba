// A GPU's board (device/board.cuh). It keeps its notes from launch to launch, so it is not arena memory: it
// is made when an op that needs it is first planned, and serves all launches of the one compute stream.
#pragma once

#include "cuda/runtime.h"
#include "device/board.cuh"

namespace tachy::cuda {

inline constexpr int kNotesOfBlock = 128;

struct BoardMemory : Gpu::Extra {
  Buffer buffer;
  BoardMemory(Gpu& gpu, size_t bytes) : buffer(bytes, &gpu) { gpu.fill(buffer.data(), 0, bytes); }
};

// Has room for kNotesOfBlock notes for each multiprocessor.
inline device::Board board_of(const Stream& stream) {
  Gpu& gpu = *stream.gpu;
  const size_t notes = static_cast<size_t>(gpu.info().multiprocessors) * kNotesOfBlock;
  if (!gpu.board) gpu.board = std::make_unique<BoardMemory>(gpu, sizeof(device::Note) * (notes + 1));
  auto* start = static_cast<device::Note*>(static_cast<BoardMemory&>(*gpu.board).buffer.data());
  return {reinterpret_cast<uint32_t*>(start), start + 1};
}

}  // namespace tachy::cuda
