// A ring of loads in shared memory that belongs to one thread: it reads only what it has loaded itself
// (cp.async, 16 bytes a copy), so no barrier is needed, and many loads are on their way at once. For kernels
// that read samples twice, once for their sums and once for their results: `steps` loads of kEach packs for
// the sums, in order; where the ring has too few slots the first `again` = steps − slots leave it at once and
// are loaded a second time behind the others; then the next sample.
#pragma once

#include "device/mma_sm80.cuh"
#include "device/vec.cuh"

namespace tachy::device {

// Until at most `pending` of this thread's loads are on their way (a little fewer at times).
__device__ __forceinline__ void wait_until_pending(int pending) {
  if (pending >= 8)
    wait_copies<8>();
  else if (pending >= 4)
    wait_copies<4>();
  else if (pending >= 2)
    wait_copies<2>();
  else
    wait_copies<0>();
}

// The loads of a thread, in order. A place in the ring is that of a load or, for who reads them, of its turn.
template <class T, int N, int kEach>
struct OwnRing {
  uint4* shared;
  int slots, samples;
  int64_t sample_stride;    // values
  int count, steps, again;  // positions of this thread in the ring; loads for the sums, and again for results
  int64_t apart;            // values between its positions
  const T* sample_begin;    // of the sample that is being loaded
  const T* from = sample_begin;
  int issued = 0, sample = 0, at = 0, place = 0;

  __device__ __forceinline__ int after(int place) const { return place + 1 == slots ? 0 : place + 1; }
  __device__ __forceinline__ uint4* at_place(int place) const {
    return shared + place * kEach * blockDim.x + threadIdx.x;
  }
  // The next load, if there is one; what lies in its place has been read.
  __device__ __forceinline__ void issue() {
    if (sample == samples) return;
    const int first = (at < steps ? at : at - steps) * kEach;
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(at_place(place)));
    asm volatile("" ::: "memory");  // what is read stays before
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const bool present = first + k < count;
      copy_async(to + k * blockDim.x * sizeof(uint4), present ? from + k * apart : sample_begin, present);
    }
    commit_copies();
    ++issued, place = after(place), from += kEach * apart;
    if (++at == steps) from = sample_begin;
    if (at < steps + again) return;
    at = 0, ++sample, sample_begin += sample_stride;
    from = sample_begin;
  }
  // Load number `load`, which lies at `place`.
  __device__ __forceinline__ void take(int load, int place, Pack<T, N> (&v)[kEach]) const {
    wait_until_pending(issued - load - 1);
    const uint4* here = at_place(place);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const uint4 four = here[k * blockDim.x];
      v[k].words[0] = four.x, v[k].words[1] = four.y, v[k].words[2] = four.z, v[k].words[3] = four.w;
    }
  }
};

// One of the two readers of a ring: which load is next, and where it lies.
struct Reader {
  int load = 0, place = 0;
  __device__ __forceinline__ void skip(int loads, int slots) {
    load += loads, place = (place + loads) % slots;
  }
};

}  // namespace tachy::device
