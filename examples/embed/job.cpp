// A job inside a C++ program: lists the presets, writes the model's transformer as one file, and makes a
// video with everything that belongs to it: the settings beside it, its state while it grows, and a way to
// stop it.
//   example_embed_job MODEL_FOLDER "a prompt" FOLDER

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "api/convert.h"
#include "api/presets.h"
#include "jobs/job_runner.h"
#include "jobs/open_engine.h"

namespace {

std::atomic<bool> stopped = false;

// Receives the job's reports: a server would send them to the user who asked for the video.
class Console : public tachy::jobs::JobSink {
 public:
  void event(const nlohmann::json&, const std::string& text) override { std::printf("%s\n", text.c_str()); }
  void notice(const std::string& text) override { std::printf("%s\n", text.c_str()); }
  void progress(const tachy::Progress& p) override {
    if (p.done == p.total) std::printf("%s: %.1f s\n", p.stage.c_str(), p.elapsed_seconds);
  }
  void end_of_progress() override {}
  void can_go_on(const std::string&) override {}
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s MODEL_FOLDER PROMPT FOLDER\n", argv[0]);
    return 2;
  }
  std::signal(SIGINT, [](int) { stopped = true; });
  try {
    for (const tachy::PresetInfo& preset : tachy::list_presets())
      std::printf("preset %s: %s\n", preset.name.c_str(), preset.about.c_str());

    const std::filesystem::path folder = argv[3];
    const tachy::ConvertedModel file = tachy::convert(
        {.model = argv[1], .output = folder / "model.safetensors", .to = "single", .cancel = &stopped});
    std::printf("%s: %lld tensors\n", file.output.c_str(), static_cast<long long>(file.tensors));

    tachy::jobs::JobSpec job;
    job.settings.model = argv[1];
    job.settings.request = {.prompt = argv[2], .frames = 5, .steps = 2, .seed = 7};
    job.output = folder / "clip.mp4";
    Console console;
    auto [engine, prepared] = tachy::jobs::open_engine(job, {.device = "cpu"}, console);
    tachy::jobs::JobStore store(&stopped);
    tachy::jobs::JobRunner runner(engine, store, console, &stopped);
    runner.run(job, prepared ? *prepared : runner.prepare(job));
    return 0;
  } catch (const tachy::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
