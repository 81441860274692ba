// Repeats one run over and over, to see whether it ever gives other latents: each repetition opens the
// device, loads all weights anew and denoises, alternately resident and with blocks passing through slots.
//
//   repeat FOLDER [--device cuda] [--reps 20] [--size 832x480] [--frames 33] [--steps 2] [--guidance 5]
//          [--verify N] [--trace N] [--hashes FILE] [--gpus N] [--level NAME] [--decode 1]
//
// With --gpus the first N GPUs share each pass, and all repetitions use one model that stays loaded. So they do with
// --decode 1, which also decodes, tells how long that took, and takes the hash of all frames for a last step's.
//
// Every N-th repetition runs with --verify-upload (which compares weights on the GPU with the files), every
// N-th with a trace, which takes the checksum of everything that lies on the device, by kind, after each
// range of the profiler (loading, text, each product and norm of each block). If the latents of a repetition
// differ, it prints the step after which they did. If two traces differ, it names the first range and kind of
// memory in which they do, even if the latents are equal. FILE keeps the first hashes, so that processes can
// be compared with one another.
//
// With TACHY_STRESS=SEED (base/stress.h) copies, fills and queues are delayed at random and fresh memory is
// filled with a byte that depends on the seed. A trace needs this, because memory that nobody has written yet
// is then equal, too. The exit status is 1 if something differed.
#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/stress.h"
#include "engine/text_to_video.h"
#include "session/stage_clock.h"

using namespace tachy;
using nlohmann::json;

namespace {

struct Setup {
  std::string folder, device = "cuda", hashes;
  int reps = 20, verify = 0, trace = 0, gpus = 1, decode = 0;
  VideoRequest request;
};

// Takes checksums of the device's memory at the end of every range.
class Trace : public Profiler {
 public:
  struct Event {
    std::string range;
    std::map<std::string, uint64_t> sums;  // keyed by the ledger's labels
  };
  std::vector<Event> events;

  explicit Trace(StreamingMemory& memory) : memory_(memory) {}
  uint64_t begin(const char* name, ProfileKind, int64_t index) override {
    open_.push_back(index < 0 ? std::string(name) : fmt::format("{} {}", name, index));
    return open_.size();
  }
  void end(uint64_t) override {
    Event event;
    for (const std::string& name : open_) event.range += (event.range.empty() ? "" : " > ") + name;
    memory_.ledger.each([&](const void* p, size_t bytes, const std::string& label) {
      event.sums[label] += mixed_word(static_cast<uint32_t>(bytes), memory_.checksum(p, bytes));
    });
    events.push_back(std::move(event));
    open_.pop_back();
  }

 private:
  StreamingMemory& memory_;
  std::vector<std::string> open_;
};

struct Outcome {
  std::vector<uint64_t> steps;  // the latents after each step
  std::vector<Trace::Event> events;
  std::string placement;
  double seconds = 0, last_step = 0, decode = 0;
};

uint64_t hash_of(std::span<const float> values) { return checksum_of(values.data(), values.size_bytes()); }

// The least memory budget at which the run still fits, trying upwards from `share` of the resident run's
// memory: with less than that, blocks pass through slots, and a stage other than the transformer's may need
// more. 0 means no limit.
uint64_t budget_of(const Setup& s, double share) {
  if (share >= 1) return 0;
  const TextToVideo::Options options{.device = s.device};
  TextToVideo whole(ModelBundle::open(s.folder), options);
  if (!whole.gpu()) return 0;
  const auto peak = static_cast<double>(whole.plan(s.request).peak_bytes);
  for (; share < 1; share += 0.05) {
    const uint64_t budget = static_cast<uint64_t>(share * peak) + (uint64_t{400} << 20);
    TextToVideo some(ModelBundle::open(s.folder), {.device = s.device, .max_vram = budget});
    try {
      some.check_memory(some.plan(s.request));
      return budget;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::out_of_memory) throw;
    }
  }
  return 0;
}

// `share` is the part of the resident run's memory that may be used; below 1, blocks pass through slots.
Outcome run_once(const Setup& s, double share, bool verify, bool traced, TextToVideo* kept) {
  const double start = monotonic_seconds();
  std::optional<TextToVideo> opened;
  if (!kept)
    opened.emplace(ModelBundle::open(s.folder),
                   TextToVideo::Options{.device = s.device,
                                        .max_vram = budget_of(s, share),
                                        .verify_upload = verify && s.device != "cpu"});
  TextToVideo& pipeline = kept ? *kept : *opened;
  Outcome out;
  const VideoPlan plan = pipeline.plan(s.request);
  for (const StagePlan& stage : plan.stages)
    if (stage.streamed > 0)
      out.placement += fmt::format("{} {} of {} blocks streamed, ", stage.name, stage.streamed, stage.blocks);
  if (out.placement.empty()) out.placement = "resident, ";
  auto* memory = StreamingMemory::of(const_cast<cuda::Gpu*>(pipeline.gpu()));
  std::optional<Trace> trace;
  if (traced && memory) trace.emplace(*memory);
  std::atomic<bool> cancel{false};
  VideoCallbacks callbacks{.cancel = &cancel};
  double step_began = 0;
  callbacks.state = [&](const RunStateView& view) {
    out.last_step = monotonic_seconds() - step_began;
    out.steps.push_back(hash_of(view.latents));
    step_began = monotonic_seconds();
  };
  // No frames are needed.
  double decode_began = 0;
  uint64_t frames = 0;
  std::vector<std::vector<uint8_t>>
      images;  // their hash is taken afterwards, since the decoder would wait for it
  callbacks.latents = [&](std::span<const float>, std::span<const int64_t>) {
    cancel = s.decode == 0;
    decode_began = monotonic_seconds();
  };
  if (s.decode > 0)
    callbacks.frame = [&](const RgbImage& image, int64_t i) {
      images.resize(std::max(images.size(), static_cast<size_t>(i) + 1));
      images[static_cast<size_t>(i)].assign(image.rgb.begin(), image.rgb.end());
      out.decode = monotonic_seconds() - decode_began;
    };
  if (trace) callbacks.profiler = &*trace;
  try {
    pipeline.generate(s.request, callbacks);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::cancelled || out.steps.empty()) throw;
  }
  for (size_t i = 0; i < images.size(); ++i)
    frames += mixed_word(static_cast<uint32_t>(i), checksum_of(images[i].data(), images[i].size()));
  if (s.decode > 0) out.steps.push_back(frames);
  if (trace) out.events = std::move(trace->events);
  out.seconds = monotonic_seconds() - start;
  return out;
}

// The first difference of two traces, or "".
std::string difference(const std::vector<Trace::Event>& a, const std::vector<Trace::Event>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].range != b[i].range)
      return fmt::format("range {} is '{}' here and '{}' there", i, b[i].range, a[i].range);
    for (const auto& [label, sum] : a[i].sums) {
      const auto other = b[i].sums.find(label);
      if (other == b[i].sums.end() || other->second != sum)
        return fmt::format("after range {}, '{}', what differs is '{}'", i, b[i].range, label);
    }
  }
  return a.size() == b.size() ? "" : fmt::format("{} ranges here, {} there", b.size(), a.size());
}

Setup parse(int argc, char** argv) {
  require(
      argc >= 2,
      "usage: repeat FOLDER [--reps N] [--size WxH] [--frames N] [--steps N] …, see bench/lab/repeat.cpp");
  Setup s{.folder = argv[1]};
  s.request.prompt = "a red circle moves to the right";
  s.request.width = 832, s.request.height = 480, s.request.frames = 33, s.request.steps = 2,
  s.request.guidance = 5;
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    require(i + 1 < argc, "{}: expected a value, got none", flag);
    const std::string text = argv[i + 1];
    const auto number = [&](const std::string& digits) {
      int value = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      require(error == std::errc() && end == digits.data() + digits.size() && value >= 0,
              "{}: expected a whole number, got '{}'", flag, text);
      return value;
    };
    if (flag == "--device")
      s.device = text;
    else if (flag == "--hashes")
      s.hashes = text;
    else if (flag == "--reps")
      s.reps = number(text);
    else if (flag == "--verify")
      s.verify = number(text);
    else if (flag == "--trace")
      s.trace = number(text);
    else if (flag == "--level")
      s.request.level = text;
    else if (flag == "--decode")
      s.decode = number(text);
    else if (flag == "--gpus")
      s.gpus = number(text);
    else if (flag == "--frames")
      s.request.frames = number(text);
    else if (flag == "--steps")
      s.request.steps = number(text);
    else if (flag == "--guidance")
      s.request.guidance = number(text);
    else if (flag == "--size") {
      const size_t cross = text.find('x');
      require(cross != std::string::npos, "--size: expected WIDTHxHEIGHT, got '{}'", text);
      s.request.width = number(text.substr(0, cross)), s.request.height = number(text.substr(cross + 1));
    } else
      fail(ErrorCode::invalid_argument, "unknown option '{}'", flag);
  }
  require(s.reps >= 1, "--reps: expected at least 1, got {}", s.reps);
  require(s.gpus == 1 || (s.gpus > 1 && s.verify == 0 && s.trace == 0),
          "--gpus: expected 1, or more without --verify and --trace, got {}", s.gpus);
  require(s.trace == 0 || stress_seed() != 0,
          "--trace: needs TACHY_STRESS=SEED, so that memory which nobody has written is equal in all "
          "repetitions");
  return s;
}

int run(const Setup& s) {
  std::vector<uint64_t> expected;
  if (std::ifstream kept(s.hashes); !s.hashes.empty() && kept)
    expected = json::parse(kept).get<std::vector<uint64_t>>();
  std::map<std::string, std::vector<Trace::Event>> traces;  // the first one of each placement
  constexpr double kShares[] = {1, 0.8, 0.6};
  std::optional<TextToVideo> kept;
  if (s.gpus > 1 || s.decode > 0) {
    TextToVideo::Options options{.keep_loaded = true, .device = s.gpus > 1 ? "cuda:0" : s.device};
    for (int gpu = 0; gpu < s.gpus && s.gpus > 1; ++gpu) options.gpus.push_back(gpu);
    kept.emplace(ModelBundle::open(s.folder), options);
  }
  int different = 0, traced = 0, verified = 0;
  double seconds = 0;
  for (int i = 0; i < s.reps; ++i) {
    const bool verify = s.verify > 0 && i % s.verify == s.verify - 1, trace = s.trace > 0 && i % s.trace == 0;
    const Outcome o = run_once(s, kept ? 1 : kShares[i % 3], verify, trace, kept ? &*kept : nullptr);
    seconds += o.seconds, traced += trace, verified += verify;
    if (expected.empty()) {
      expected = o.steps;
      if (!s.hashes.empty()) std::ofstream(s.hashes) << json(expected);
    }
    std::string what;
    for (size_t k = 0; k < expected.size() && what.empty(); ++k)
      if (k >= o.steps.size() || o.steps[k] != expected[k])
        what = fmt::format("LATENTS DIFFER after step {}", k + 1);
    if (trace) {
      auto& first = traces[o.placement];
      if (first.empty())
        first = o.events;
      else if (const std::string at = difference(first, o.events); !at.empty())
        what += fmt::format("{}MEMORY DIFFERS {}", what.empty() ? "" : "; ", at);
    }
    different += !what.empty();
    if (!what.empty() || i < 3)
      fmt::print("repetition {}: {}{:.2f} s, the last step {:.4f}, decode {:.4f}{}{}: {:016x} {}\n", i,
                 o.placement, o.seconds, o.last_step, o.decode, verify ? ", verified" : "",
                 trace ? fmt::format(", {} ranges traced", o.events.size()) : "", o.steps.back(), what);
    std::fflush(stdout);
  }
  fmt::print("{} repetitions in {:.1f} s, {} verified, {} traced, stress {}: {} differ; {:016x}\n", s.reps,
             seconds, verified, traced, stress_seed(), different, expected.back());
  return different ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "repeat: {}\n", e.what());
    return 2;
  }
}
