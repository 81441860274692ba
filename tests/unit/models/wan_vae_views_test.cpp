// Ranks on GPUs exchange rows as views, which arrive in memory of their own. These do so on the CPU, and decode the bits
// of one rank.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include "wan_vae_on_ranks.h"

namespace tachy::test {
namespace {

// A rank that exchanges views, as those on GPUs do: rows of frames arrive in memory of their own.
class ViewComm final : public Comm {
 public:
  ViewComm(Comm& inner, std::atomic<int>& free, std::atomic<int>& exchanges,
           std::atomic<bool>* written = nullptr)
      : inner_(inner), free_(free), exchanges_(exchanges), written_(written) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  bool moves_views() const override { return true; }

 private:
  void exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) override {
    inner_.all_to_all(from, to, stream);
  }
  void collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) override {
    inner_.gather(part, to, stream);
  }
  void exchange_views(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                      bool free) override {
    free_ += free, ++exchanges_;
    if (written_) *written_ = true;
    std::vector<std::vector<char>> rows(2 * from.size());
    std::vector<Tensor> sent(from.size()), got(from.size());
    const auto whole = [&](const Tensor& t, std::vector<char>& bytes) {
      if (!t.defined()) return Tensor();
      bytes.resize(static_cast<size_t>(t.bytes()));
      return Tensor(bytes.data(), t.dtype, t.shape());
    };
    const auto each_row = [](const Tensor& view, const Tensor& packed, bool pack) {
      const auto row = static_cast<size_t>(packed.bytes() / std::max<int64_t>(1, packed.dim(1)));
      for (int64_t t = 0; t < view.dim(1); ++t) {
        char* const there = static_cast<char*>(view.slice(1, t, t + 1).data);
        char* const here = static_cast<char*>(packed.data) + static_cast<size_t>(t) * row;
        std::memcpy(pack ? here : there, pack ? there : here, row);
      }
    };
    for (size_t p = 0; p < from.size(); ++p) {
      sent[p] = whole(from[p], rows[2 * p]), got[p] = whole(to[p], rows[2 * p + 1]);
      if (sent[p].defined()) each_row(from[p], sent[p], true);
    }
    inner_.all_to_all(sent, got, stream);
    for (size_t p = 0; p < to.size(); ++p)
      if (got[p].defined()) each_row(to[p], got[p], false);
  }

  Comm& inner_;
  std::atomic<int>&free_, &exchanges_;
  std::atomic<bool>* written_;
};

class RanksByViews : public testing::TestWithParam<const char*> {};

TEST_P(RanksByViews, DecodeTheBitsOfOne) {
  VaeCase c(GetParam());
  constexpr int64_t kFrames = 8;  // in chunks of up to four: one, two, four, one
  const std::vector<float> of_one = decoded(c, {kFrames, 5, 2}, 1);
  for (const int64_t chunk : {1, 2, 4}) {
    std::vector<float> values = wave(c.config.z_dim * kFrames * 5 * 2), out;
    const Tensor latents(values.data(), DType::f32, {c.config.z_dim, kFrames, 5, 2});
    Runner loader;
    Stream loading = loader.sized(size_t{64} << 20);
    const VaeDecoder decoder(Scope(c.source()), c.config, {}, loading);
    std::atomic<int> free{0}, exchanges{0};
    on_ranks(3, [&](Stream& stream, Comm* comm) {
      ViewComm views(*comm, free, exchanges);
      const auto sink = [&](const Tensor& frames, int64_t) {
        if (!stream.measuring())
          out.insert(out.end(), frames.as<float>(), frames.as<float>() + frames.numel());
      };
      decoder.decode(latents, sink, stream, chunk, &views);
    });
    EXPECT_TRUE(out == of_one) << chunk;
    EXPECT_GT(free, 3 * 10) << "rows without mail";
    EXPECT_EQ(exchanges - free, 3 * 2)
        << "of all ranks' exchanges only the first two wait for the mail's places";
  }
}

// Memory of one rank, into which its neighbours may write from an exchange on until the rank has waited.
class Shared final : public DeviceMemory {
 public:
  std::atomic<bool> written{false}, early{false};  // whether memory was given back while they did
  Device device() const override { return Device::cpu; }
  void* allocate(size_t bytes) override { return std::aligned_alloc(kAlignment, bytes); }
  void release(void* p, size_t) noexcept override {
    if (written) early = true;
    std::free(p);
  }
  void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, int byte, size_t bytes) override { std::memset(to, byte, bytes); }
  void synchronize() override { written = false; }
  size_t live_bytes() const override { return 0; }
  size_t peak_bytes() const override { return 0; }
  void reset_peak() override {}
};

// A run that ends early gives back its memory while exchanges are queued.
TEST(StatesOfRanks, KeepTheirMemoryUntilNeighboursHaveWritten) {
  VaeCase c("wan21");
  std::vector<float> values = wave(c.config.z_dim * 4 * 5 * 2);
  const Tensor latents(values.data(), DType::f32, {c.config.z_dim, 4, 5, 2});
  Runner loader;
  Stream loading = loader.sized(size_t{64} << 20);
  const VaeDecoder decoder(Scope(c.source()), c.config, {}, loading);
  for (const bool stopped : {false, true}) {
    std::atomic<int> free{0}, exchanges{0};
    std::array<Shared, 3> memories;
    const auto decode = [&] {
      on_ranks(3, [&](Stream& stream, Comm* comm) {
        Shared& memory = memories.at(static_cast<size_t>(comm->rank()));
        ViewComm views(*comm, free, exchanges, &memory.written);
        const auto sink = [&](const Tensor&, int64_t first) {
          if (stopped && first > 0 && !stream.measuring()) fail(ErrorCode::cancelled, "cancelled");
        };
        Stream own = stream;
        if (!stream.measuring()) own.memory = &memory;
        decoder.decode(latents, sink, own, 2, &views);
      });
    };
    if (stopped)
      EXPECT_THROW(decode(), Error);
    else
      decode();
    EXPECT_GT(exchanges, 3 * 10);
    for (size_t rank = 0; rank < memories.size(); ++rank)
      EXPECT_FALSE(memories[rank].early) << "rank " << rank << (stopped ? ", stopped" : "");
  }
}

INSTANTIATE_TEST_SUITE_P(Vae, RanksByViews, testing::Values("wan21", "shallow", "wan22", "residual"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tachy::test
