// The VAE on a GPU is compared with diffusers (float64): every golden configuration (Wan2.1, Wan2.2, odd
// sizes), each dtype, single images and clips in chunks. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include "cuda/gpu.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"
#include "wan_vae_golden.h"

namespace tachy::test {
namespace {

// Calls body(measured, stream) twice: first in a measure run, then in an arena of exactly the measured size.
template <class Body>
void planned(cuda::Gpu& gpu, DType dtype, Body&& body) {
  ThreadPool pool(2);
  Arena measure;
  Stream stream{
      .arena = &measure, .pool = &pool, .gpu = &gpu, .memory = &gpu, .precision = {.activation = dtype}};
  body(true, stream);
  Arena arena(std::max<size_t>(measure.peak(), 1), &gpu);
  stream.arena = &arena;
  body(false, stream);
  EXPECT_EQ(arena.peak(), measure.peak());
}

// Uploads a contiguous host tensor [C, T, H, W] to the GPU.
Tensor uploaded(const Tensor& host, Buffer& buffer, Stream& stream) {
  buffer = Buffer(static_cast<size_t>(host.bytes()), stream.memory);
  const Tensor out(buffer.data(), DType::f32, host.shape(), stream.device());
  upload(host.data, out, stream);
  return out;
}

class OnGpu : public testing::TestWithParam<std::tuple<const char*, DType>> {
 protected:
  void SetUp() override {
    if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
    gpu_ = cuda::open_gpu();
  }
  VaeCase vae() const { return VaeCase(std::get<0>(GetParam())); }
  DType dtype() const { return std::get<1>(GetParam()); }
  // With random weights, rounding passes undamped through some forty layers.
  double bound() const { return dtype() == DType::f32 ? 2e-5 : dtype() == DType::f16 ? 1e-2 : 8e-2; }

  std::unique_ptr<cuda::Gpu> gpu_;
};

TEST_P(OnGpu, Decodes) {
  VaeCase c = vae();
  const Tensor latents = c.input("latents"), expected = channels_last_view(c.expected("decoded"));
  const Scope scope(c.source());
  for (const int64_t t : {int64_t{1}, latents.dim(1)})
    for (const int64_t chunk : {1, 2}) {
      if (chunk > 1 && t <= chunk) continue;
      std::vector<float> values;
      std::vector<int64_t> dims;
      planned(*gpu_, dtype(), [&](bool plan, Stream& stream) {
        const VaeDecoder decoder(scope, c.config, {.normalised = false}, stream);
        Buffer buffer;
        const Tensor z = plan ? Tensor(nullptr, DType::f32, latents.shape(), Device::null)
                              : uploaded(latents, buffer, stream);
        decoder.decode(
            z.slice(1, 0, t),
            [&](const Tensor& frames, int64_t first) {
              if (plan) return;
              if (first == 0) dims = {0, frames.dim(1), frames.dim(2), frames.dim(3)};
              dims[0] += frames.dim(0);
              Buffer wide(static_cast<size_t>(frames.numel()) * 4, stream.memory);
              const Tensor f32(wide.data(), DType::f32, frames.shape(), stream.device());
              ops::copy({.x = frames, .y = f32}, stream);
              values.resize(values.size() + static_cast<size_t>(frames.numel()));
              download(f32, values.data() + values.size() - frames.numel(), stream);
            },
            stream, chunk);
      });
      const double error =
          error_of(Tensor(values.data(), DType::f32, dims), expected.slice(0, 0, c.config.pixel_frames(t)));
      RecordProperty(fmt::format("error_{}_{}", t, chunk), fmt::format("{:.2e}", error));
      EXPECT_LE(error, bound()) << t << " latent frames in chunks of " << chunk;
    }
}

TEST_P(OnGpu, Encodes) {
  VaeCase c = vae();
  const Tensor video = c.input("video"), expected = c.expected("mean");
  const Scope scope(c.source());
  const int64_t stride = c.config.spatial_stride();
  const auto encode_in_chunks = [&](int64_t frames, int64_t chunk) {
    const int64_t made = c.config.latent_frames(frames);
    std::vector<float> values;
    std::vector<int64_t> dims{c.config.z_dim, made, video.dim(2) / stride, video.dim(3) / stride};
    planned(*gpu_, dtype(), [&](bool plan, Stream& stream) {
      const VaeEncoder encoder(scope, c.config, {.logvar = false}, stream);
      Buffer buffer, out;
      const Tensor x =
          plan ? Tensor(nullptr, DType::f32, video.shape(), Device::null) : uploaded(video, buffer, stream);
      Tensor mean(nullptr, DType::f32, dims, Device::null);
      if (!plan) {
        out = Buffer(static_cast<size_t>(mean.bytes()), stream.memory);
        mean = Tensor(out.data(), DType::f32, dims, stream.device());
      }
      const Tensor all = channels_last_view(x);
      encoder.encode(
          {frames, all.dim(1), all.dim(2)},
          [&](int64_t first, int64_t count) { return all.slice(0, first, first + count); }, mean, Tensor(),
          stream, nullptr, {}, chunk);
      if (plan) return;
      values.resize(static_cast<size_t>(mean.numel()));
      download(mean, values.data(), stream);
    });
    const double error = error_of(Tensor(values.data(), DType::f32, dims), expected.slice(1, 0, made));
    RecordProperty(fmt::format("error_{}_{}", frames, chunk), fmt::format("{:.2e}", error));
    EXPECT_LE(error, bound()) << frames << " frames in chunks of " << chunk;
  };
  encode_in_chunks(1, 1);
  for (const int64_t chunk : {1, 2}) encode_in_chunks(video.dim(1), chunk);
}

// A picture, grey frames and another picture: what is left out of the grey frames changes no bit.
TEST_P(OnGpu, EncodesEqualFramesOnce) {
  VaeCase c = vae();
  const Tensor video = channels_last_view(c.input("video"));
  const int64_t stride = c.config.spatial_stride(), height = video.dim(1), width = video.dim(2), frames = 61;
  const std::vector<int64_t> dims{c.config.z_dim, c.config.latent_frames(frames), height / stride,
                                  width / stride};
  const auto mean_of = [&](EqualFrames equal) {
    std::vector<float> values;
    planned(*gpu_, dtype(), [&](bool plan, Stream& stream) {
      const VaeEncoder encoder(Scope(c.source()), c.config, {.logvar = false}, stream);
      Buffer buffer, picture, out;
      const std::vector<int64_t> chunk{VaeEncoder::kChunkFrames, height, width, video.dim(3)};
      Tensor x(nullptr, DType::f32, chunk, Device::null), mean(nullptr, DType::f32, dims, Device::null),
          given;
      if (!plan) {
        buffer = Buffer(static_cast<size_t>(x.bytes()), stream.memory);
        out = Buffer(static_cast<size_t>(mean.bytes()), stream.memory);
        x = Tensor(buffer.data(), DType::f32, chunk, stream.device());
        mean = Tensor(out.data(), DType::f32, dims, stream.device());
        given = channels_last_view(uploaded(c.input("video"), picture, stream)).slice(0, 0, 1);
      }
      const auto source = [&](int64_t first, int64_t count) {
        if (plan) return x.slice(0, 0, count);
        zero(x, stream);
        if (first == 0) ops::copy({.x = given, .y = x.slice(0, 0, 1)}, stream);
        if (first + count == frames) ops::copy({.x = given, .y = x.slice(0, count - 1, count)}, stream);
        return x.slice(0, 0, count);
      };
      encoder.encode({frames, height, width}, source, mean, Tensor(), stream, nullptr, equal);
      if (plan) return;
      values.resize(static_cast<size_t>(mean.numel()));
      download(mean, values.data(), stream);
    });
    return values;
  };
  EXPECT_EQ(mean_of({.begin = 1, .end = frames - 1}), mean_of({}));
}

INSTANTIATE_TEST_SUITE_P(All, OnGpu,
                         testing::Combine(testing::Values("wan21", "shallow", "wide_decoder", "wan22",
                                                          "residual"),
                                          testing::Values(DType::f32, DType::f16, DType::bf16)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param),
                                              dtype_name(std::get<1>(info.param)));
                         });

// The shipped model's golden video.
class ShippedVaeOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
    gpu_ = cuda::open_gpu();
    if (gpu_->info().capability() < 80) GTEST_SKIP() << "the kernels need compute capability 8.0";
  }
  std::vector<float> decode(Products products, DType dtype) {
    const std::string model = std::string(TACHY_SOURCE_DIR) + "/models/sprites/";
    const Scope scope(open_safetensors(model + "vae/diffusion_pytorch_model.safetensors"));
    const VaeConfig config = VaeConfig::from_json(read_json(model + "vae/config.json"));
    const auto golden = open_safetensors(model + "golden/generation.safetensors");
    const auto* entry = golden->find("latents");
    const Tensor latents(const_cast<void*>(entry->data), entry->dtype, entry->dims);
    std::vector<float> values;
    planned(*gpu_, dtype, [&](bool plan, Stream& stream) {
      stream.precision.products = products;
      const VaeDecoder decoder(scope, config, {}, stream);
      Buffer buffer;
      const Tensor z = plan ? Tensor(nullptr, DType::f32, latents.shape(), Device::null)
                            : uploaded(latents, buffer, stream);
      const auto sink = [&](const Tensor& frames, int64_t) {
        if (plan) return;
        Buffer wide(static_cast<size_t>(frames.numel()) * 4, stream.memory);
        const Tensor f32(wide.data(), DType::f32, frames.shape(), stream.device());
        ops::copy({.x = frames, .y = f32}, stream);
        values.resize(values.size() + static_cast<size_t>(frames.numel()));
        download(f32, values.data() + values.size() - frames.numel(), stream);
      };
      decoder.decode(z, sink, stream);
    });
    return values;
  }
  // Compares the frames with those of other products, in dB, and a repetition with itself.
  void compare(const std::vector<float>& plain, Products products, DType dtype, double least, double most) {
    const auto other = decode(products, dtype);
    ASSERT_EQ(plain.size(), other.size());
    double squares = 0;
    for (size_t i = 0; i < plain.size(); ++i)
      squares += std::pow(static_cast<double>(plain[i]) - other[i], 2);
    const double db = 10 * std::log10(4.0 * static_cast<double>(plain.size()) / squares);
    RecordProperty(fmt::format("psnr_{}", static_cast<int>(products)), fmt::format("{:.2f}", db));
    EXPECT_GE(db, least);
    EXPECT_LE(db, most) << "were these products used?";
    EXPECT_EQ(other, decode(products, dtype));
  }

  std::unique_ptr<cuda::Gpu> gpu_;
};

// The residual blocks in e4m3 and in int8, compared with bf16.
TEST_F(ShippedVaeOnGpu, EightBitsHardlyChangeFrames) {
  const auto plain = decode(Products::as_activations, DType::bf16);
  if (gpu_->info().capability() >= 89) compare(plain, Products::e4m3, DType::bf16, 45, 80);
  compare(plain, Products::int8, DType::bf16, 40, 80);
}

}  // namespace
}  // namespace tachy::test
