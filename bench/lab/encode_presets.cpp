// Measures what an x264 preset costs and keeps, in bytes, SSIM of luma and CPU seconds, for film-like frames
// and for noise.
//
//   lab_encode_presets CLIP WIDTH HEIGHT FRAMES [film|clean|noise] [NAME=PRESET[:KEY=VALUE…] …]
//
// CLIP is a video of the shipped model (tachyscope generate "a red circle moves right" -o clip.mp4). Each
// frame is converted as the writer converts it; "clean" leaves out the grain. SSIM is the mean over the clip,
// with windows of 8x8 every 4 pixels. The other rows are compared with the first one.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>

#include "base/error.h"
#include "media/video/libav.h"
#include "test_frames.h"

namespace tachy::lab {
namespace {

struct Candidate {
  std::string name, preset, params;
};

struct Result {
  int64_t bytes = 0;
  double ssim = 0, cpu_seconds = 0, wall_seconds = 0;
};

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return double(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * double(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

double ssim_of(const AVFrame& a, const AVFrame& b) {
  constexpr int kSide = 8, kStep = 4, kPixels = kSide * kSide;
  constexpr double c1 = 6.5025 * kPixels * kPixels, c2 = 58.5225 * kPixels * kPixels;
  double sum = 0;
  int64_t windows = 0;
  for (int y = 0; y + kSide <= a.height; y += kStep)
    for (int x = 0; x + kSide <= a.width; x += kStep, ++windows) {
      int64_t s1 = 0, s2 = 0, ss = 0, s12 = 0;
      for (int i = 0; i < kSide; ++i)
        for (int j = 0; j < kSide; ++j) {
          const int p = a.data[0][(y + i) * a.linesize[0] + x + j],
                    q = b.data[0][(y + i) * b.linesize[0] + x + j];
          s1 += p, s2 += q, ss += p * p + q * q, s12 += p * q;
        }
      const double variance = double(ss * kPixels - s1 * s1 - s2 * s2),
                   covariance = double(s12 * kPixels - s1 * s2);
      sum += (2.0 * double(s1 * s2) + c1) * (2 * covariance + c2) /
             ((double(s1 * s1 + s2 * s2) + c1) * (variance + c2));
    }
  return sum / double(windows);
}

av::CodecPtr open_encoder(const Candidate& candidate, int width, int height, int crf) {
  const AVCodec* encoder = avcodec_find_encoder_by_name("libx264");
  check(encoder != nullptr, ErrorCode::unsupported, "this FFmpeg has no libx264");
  av::CodecPtr codec = av::new_codec(encoder);
  codec->width = width, codec->height = height, codec->pix_fmt = AV_PIX_FMT_YUV420P;
  codec->time_base = {1, 16}, codec->framerate = {16, 1};
  codec->thread_count = 1;
  av::Options options{
      {"preset", candidate.preset}, {"profile", "high"}, {"crf", std::to_string(crf)}, {"g", "32"}};
  std::string params = "asm=avx2";
  if (!candidate.params.empty()) params += ":" + candidate.params;
  options.emplace_back("x264-params", params);
  av::Dictionary dictionary(options);
  const int rc = avcodec_open2(codec.get(), encoder, dictionary.get());
  check(rc >= 0, ErrorCode::invalid_argument, "{}: {}", candidate.name, av::reason(rc));
  return codec;
}

Result measure(const Candidate& candidate, const std::vector<av::FramePtr>& frames, int crf) {
  Result result;
  av::CodecPtr codec = open_encoder(candidate, frames[0]->width, frames[0]->height, crf);
  const AVCodec* h264 = avcodec_find_decoder(AV_CODEC_ID_H264);
  av::CodecPtr decoder = av::new_codec(h264);
  decoder->thread_count = 1;
  check(avcodec_open2(decoder.get(), h264, nullptr) >= 0, ErrorCode::unsupported,
        "this FFmpeg cannot decode H.264");
  std::vector<av::PacketPtr> packets;
  const double cpu = cpu_seconds();
  const auto start = std::chrono::steady_clock::now();
  const auto take = [&] {
    for (;;) {
      av::PacketPtr packet = av::new_packet();
      if (avcodec_receive_packet(codec.get(), packet.get()) < 0) return;
      result.bytes += packet->size;
      packets.push_back(std::move(packet));
    }
  };
  for (size_t t = 0; t < frames.size(); ++t) {
    frames[t]->pts = int64_t(t);
    avcodec_send_frame(codec.get(), frames[t].get());
    take();
  }
  avcodec_send_frame(codec.get(), nullptr);
  take();
  result.cpu_seconds = cpu_seconds() - cpu;
  result.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  size_t shown = 0;
  av::FramePtr back = av::new_frame();
  const auto compare = [&] {
    while (avcodec_receive_frame(decoder.get(), back.get()) >= 0)
      result.ssim += ssim_of(*frames[shown++], *back);
  };
  for (av::PacketPtr& packet : packets) {
    avcodec_send_packet(decoder.get(), packet.get());
    compare();
  }
  avcodec_send_packet(decoder.get(), nullptr);
  compare();
  check(shown == frames.size(), ErrorCode::internal, "{}: {} of {} frames came back", candidate.name, shown,
        frames.size());
  result.ssim /= double(shown);
  return result;
}

std::vector<av::FramePtr> make_frames(const std::string& content, const std::string& clip, int width,
                                      int height, int count) {
  const std::vector<RgbFrame> pictures = content == "noise" ? std::vector<RgbFrame>{} : read_video(clip);
  av::SwsPtr convert = av::new_converter(width, height, AV_PIX_FMT_RGB24, {SWS_CS_ITU709, true},
                                         AV_PIX_FMT_YUV420P, {SWS_CS_ITU709, false});
  av::FramePtr rgb = av::new_picture(AV_PIX_FMT_RGB24, width, height);
  std::vector<av::FramePtr> frames;
  double seconds = 0;
  for (int t = 0; t < count; ++t) {
    const RgbFrame frame = pictures.empty()
                               ? noise_frame(width, height, t)
                               : film_frame(pictures, width, height, t, content == "film" ? 4 : 0);
    const double cpu = cpu_seconds();
    av::copy_rgb(frame.view(), *rgb);
    frames.push_back(av::new_picture(AV_PIX_FMT_YUV420P, width, height));
    sws_scale(convert.get(), rgb->data, rgb->linesize, 0, height, frames.back()->data,
              frames.back()->linesize);
    seconds += cpu_seconds() - cpu;
  }
  fmt::print("\n{}, {} frames of {}x{}; conversion {:.2f} ms a frame\n\n", content, count, width, height,
             1e3 * seconds / count);
  return frames;
}

int run(int argc, char** argv) {
  const std::string clip = argv[1];
  const int width = std::atoi(argv[2]), height = std::atoi(argv[3]), count = std::atoi(argv[4]);
  std::vector<std::string> contents;
  std::vector<Candidate> candidates;
  int crf = 16;
  for (int i = 5; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "film" || word == "clean" || word == "noise") {
      contents.push_back(word);
      continue;
    }
    const size_t equals = word.find('='), colon = word.find(':');
    check(equals != word.npos, ErrorCode::invalid_argument, "{}: expected NAME=PRESET[:KEY=VALUE…]", word);
    candidates.push_back({word.substr(0, equals), word.substr(equals + 1, colon - equals - 1),
                          colon == word.npos ? "" : word.substr(colon + 1)});
  }
  if (contents.empty()) contents = {"film", "noise"};
  if (candidates.empty())
    for (const char* preset : {"medium", "fast", "faster", "veryfast", "superfast"})
      candidates.push_back({preset, preset, ""});
  for (const std::string& content : contents) {
    const std::vector<av::FramePtr> frames = make_frames(content, clip, width, height, count);
    fmt::print(
        "| options | MB | size | SSIM | difference | CPU ms a frame | wall ms a frame |\n| --- | --- | --- | "
        "--- | --- | --- | --- |\n");
    Result first;
    for (const Candidate& candidate : candidates) {
      const Result r = measure(candidate, frames, crf);
      if (first.bytes == 0) first = r;
      fmt::print("| {} | {:.2f} | {:+.1f} % | {:.4f} | {:+.4f} | {:.1f} | {:.1f} |\n", candidate.name,
                 double(r.bytes) / 1e6, 100 * (double(r.bytes) / double(first.bytes) - 1), r.ssim,
                 r.ssim - first.ssim, 1e3 * r.cpu_seconds / count, 1e3 * r.wall_seconds / count);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace tachy::lab

int main(int argc, char** argv) {
  if (argc < 5)
    return std::fputs(
               "lab_encode_presets CLIP WIDTH HEIGHT FRAMES [film|clean|noise] [NAME=PRESET[:KEY=VALUE…] "
               "…]\n",
               stderr),
           2;
  try {
    return tachy::lab::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lab_encode_presets: %s\n", e.what());
    return 1;
  }
}
