// Fuzzes the settings of an earlier run, from a .json, a video or picture, or the state that a run resumes
// from; and tensors of latents and embeddings. The first byte chooses between them.
#include "jobs/settings.h"

#include <nlohmann/json.hpp>

#include "../fuzz_input.h"

using namespace tachy;

namespace {

// Gives the fuzzer's file a name with the extension that decides how it is read.
std::string named(const fuzz::MemoryFile& file, const fuzz::Folder& folder, const char* name) {
  const auto path = folder.path() / name;
  std::filesystem::create_symlink(file.path(), path);
  return path.string();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  static fuzz::Folder folder;
  static const std::string json = named(file, folder, "run.json");
  static const std::string state = named(file, folder, "run.mp4.resume");
  if (size < 1) return 0;
  file.set(fuzz::view(data + 1, size - 1));
  const int which = data[0] % 4;
  fuzz::expect_error_or_result([&] {
    if (which == 3) {
      fuzz::expect_error_or_result([] { (void)read_latents(file.path()); });
      (void)read_image_embeds(file.path());
      return;
    }
    const jobs::RunSettings s = jobs::read_settings(which == 0 ? json : which == 1 ? file.path() : state);
    // The settings that were read are written into the next run's output. (A text that is not UTF-8 cannot
    // come from JSON.)
    nlohmann::json next = jobs::to_json(s);
    jobs::add_encoding(next, s.encoding);
    (void)next.dump();
    (void)environment_difference(s.environment, recorded_environment());
    if (which == 2) (void)read_run_state(state);
  });
  return 0;
}
