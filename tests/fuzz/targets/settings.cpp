// --from: the settings of a run, as a .json or inside a video or picture (the first byte says which).
#include "../../../apps/cli/settings.h"

#include <nlohmann/json.hpp>

#include "../fuzz_input.h"

using namespace tachy;

// settings.cpp writes the version; the engine behind it is not linked here.
std::string tachy::version() { return "0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  static fuzz::Folder folder;
  static const std::string json = [] {
    const auto path = folder.path() / "run.json";
    std::filesystem::create_symlink(file.path(), path);
    return path.string();
  }();
  if (size < 1) return 0;
  file.set(fuzz::view(data + 1, size - 1));
  fuzz::expect_error_or_result([&] {
    const cli::RunSettings s = cli::read_settings(data[0] % 2 == 0 ? json : file.path());
    // What was read is written into the next run's output. (A text that is not UTF-8 cannot come from JSON.)
    (void)cli::to_json(s).dump();
  });
  return 0;
}
