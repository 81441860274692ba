// torch's CPU and CUDA generators.
//
// Sources: MT19937 (mersenne.h), Philox4x32-10 (Salmon et al. 2011); normals: box_muller.h.
#include "tensor/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "tensor/box_muller.h"

namespace tachy {
namespace {

using mersenne::tempered, mersenne::to_unit, mersenne::twisted;

constexpr size_t kBlock = kBoxMullerBlock;
constexpr int64_t kCudaBlock = 256, kCudaBlocksPerMultiprocessor = 2048 / kCudaBlock, kCudaUnroll = 4;

}  // namespace

TorchCpuGenerator::TorchCpuGenerator(uint64_t seed) {
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t k = 1; k < kStateSize; ++k)
    state_[k] = 1812433253u * (state_[k - 1] ^ (state_[k - 1] >> 30)) + k;
}

void TorchCpuGenerator::renew() {
  constexpr size_t n = kStateSize, kSplit = mersenne::kNear;
  for (size_t k = 0; k < kSplit; ++k)
    state_[k] = twisted(state_[k], state_[k + 1], state_[k + mersenne::kFar]);
  for (size_t k = kSplit; k < n - 1; ++k) state_[k] = twisted(state_[k], state_[k + 1], state_[k - kSplit]);
  state_[n - 1] = twisted(state_[n - 1], state_[0], state_[mersenne::kFar - 1]);
  position_ = 0;
}

uint32_t TorchCpuGenerator::next() {
  if (position_ == kStateSize) renew();
  return tempered(state_[position_++]);
}

void TorchCpuGenerator::uniform24(std::span<float> out) {
  for (size_t done = 0; done < out.size();) {
    if (position_ == kStateSize) renew();
    const size_t count = std::min(kStateSize - position_, out.size() - done);
    for (size_t i = 0; i < count; ++i) out[done + i] = to_unit(tempered(state_[position_ + i]));
    done += count, position_ += count;
  }
}

double TorchCpuGenerator::uniform53() {
  const uint64_t high = next();
  const uint64_t bits = (high << 32) | next();
  return static_cast<double>(bits & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

double TorchCpuGenerator::normal_scalar() {
  if (kept_) {
    const double value = *kept_;
    kept_.reset();
    return value;
  }
  const double angle = 2.0 * std::numbers::pi * uniform53();
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform53()));
  kept_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

void TorchCpuGenerator::normal(std::span<float> out) {
  if (out.size() < kBlock) {
    for (float& value : out) value = static_cast<float>(normal_scalar());
    return;
  }
  uniform24(out);
  box_muller(out.data(), out.size() / kBlock);
  if (out.size() % kBlock == 0) return;
  const auto last = out.last(kBlock);  // this overlaps the previous block and is redrawn as a whole
  uniform24(last);
  box_muller(last.data(), 1);
}

void TorchCpuGenerator::skip(size_t n) {
  while (n > 0) {
    if (position_ == kStateSize) renew();
    const size_t count = std::min(kStateSize - position_, n);
    position_ += count, n -= count;
  }
}

std::vector<int64_t> TorchCpuGenerator::permutation(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = i;
  for (int64_t i = 0; i + 1 < n; ++i)
    std::swap(out[static_cast<size_t>(i)], out[static_cast<size_t>(i + next() % (n - i))]);
  return out;
}

std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53u} * c[0], b = uint64_t{0xcd9e8d57u} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return c;
}

TorchCudaGenerator::TorchCudaGenerator(uint64_t seed, int multiprocessors)
    : seed_(seed), grid_limit_(multiprocessors * kCudaBlocksPerMultiprocessor) {
  require(multiprocessors >= 1 && multiprocessors <= 4096, "multiprocessors: expected 1 to 4096, got {}",
          multiprocessors);
}

void TorchCudaGenerator::normal(std::span<float> out) {
  const auto n = static_cast<int64_t>(out.size());
  if (n == 0) return;
  // torch splits larger tensors into several launches.
  require(n <= int64_t{1} << 29, "noise: expected at most 2^29 values, got {}", n);
  const int64_t blocks = std::min(grid_limit_, (n + kCudaBlock - 1) / kCudaBlock);
  const int64_t threads = blocks * kCudaBlock;
  const int64_t rounds = (n - 1) / (threads * kCudaUnroll) + 1;
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)};
  constexpr float kToUnit = 0x1p-32f, kToAngle = 0x1p-32f * 6.2831855f;
  for (int64_t round = 0; round < rounds; ++round) {
    const uint64_t counter = counter_ + static_cast<uint64_t>(round);
    for (int64_t thread = 0; thread < threads; ++thread) {
      const int64_t first = round * threads * kCudaUnroll + thread;
      if (first >= n) break;
      const auto bits = philox4x32_10({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                                       static_cast<uint32_t>(thread), 0},
                                      key);
      for (size_t pair = 0; pair < 2; ++pair) {
        const float u = std::fma(static_cast<float>(bits[2 * pair]), kToUnit, kToUnit / 2);
        const float angle = std::fma(static_cast<float>(bits[2 * pair + 1]), kToAngle, kToAngle / 2);
        const float radius = std::sqrt(-2.0f * std::log(u));
        const int64_t at = first + 2 * static_cast<int64_t>(pair) * threads;
        if (at < n) out[static_cast<size_t>(at)] = radius * std::sin(angle);
        if (at + threads < n) out[static_cast<size_t>(at + threads)] = radius * std::cos(angle);
      }
    }
  }
  counter_ += static_cast<uint64_t>(rounds);
}

namespace {

template <class T>
void put(std::vector<uint8_t>& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}
template <class T>
T take(std::span<const uint8_t>& in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(T{in[i]} << (8 * i));
  in = in.subspan(sizeof(T));
  return value;
}

}  // namespace

std::vector<uint8_t> TorchCpuGenerator::save() const {
  std::vector<uint8_t> out;
  for (const uint32_t word : state_) put(out, word);
  put(out, static_cast<uint32_t>(position_));
  put(out, static_cast<uint32_t>(kept_.has_value()));
  put(out, std::bit_cast<uint64_t>(kept_.value_or(0.0)));
  return out;
}

void TorchCpuGenerator::restore(std::span<const uint8_t> bytes) {
  check(bytes.size() == kStateSize * 4 + 16, ErrorCode::corrupt,
        "generator: expected {} bytes of state, got {}", kStateSize * 4 + 16, bytes.size());
  for (uint32_t& word : state_) word = take<uint32_t>(bytes);
  const auto position = take<uint32_t>(bytes), kept = take<uint32_t>(bytes);
  const auto value = std::bit_cast<double>(take<uint64_t>(bytes));
  check(position <= kStateSize && kept <= 1 && std::isfinite(value), ErrorCode::corrupt,
        "generator: its state is damaged");
  position_ = position;
  kept_ = kept ? std::optional(value) : std::nullopt;
}

std::vector<uint8_t> TorchCudaGenerator::save() const {
  std::vector<uint8_t> out;
  put(out, seed_), put(out, counter_), put(out, static_cast<uint64_t>(grid_limit_));
  return out;
}

void TorchCudaGenerator::restore(std::span<const uint8_t> bytes) {
  check(bytes.size() == 24, ErrorCode::corrupt, "generator: expected 24 bytes of state, got {}",
        bytes.size());
  const auto seed = take<uint64_t>(bytes), counter = take<uint64_t>(bytes), limit = take<uint64_t>(bytes);
  check(limit >= 1 && limit <= 4096 * kCudaBlocksPerMultiprocessor, ErrorCode::corrupt,
        "generator: its state is damaged");
  seed_ = seed, counter_ = counter, grid_limit_ = static_cast<int64_t>(limit);
}

void torch_cpu_normal(uint64_t seed, std::span<float> out) { TorchCpuGenerator(seed).normal(out); }

void torch_cuda_normal(uint64_t seed, std::span<float> out, int multiprocessors) {
  TorchCudaGenerator(seed, multiprocessors).normal(out);
}

}  // namespace tachy
