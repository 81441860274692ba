// `tachyscope serve` starts the server, which is a program of its own (apps/serve): its libraries need not be on a
// machine that only makes videos. The options are checked here, so that help and messages do not depend on it.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "base/os/process.h"
#include "commands.h"
#include "serve_options.h"

namespace tachy::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "tachyscope-serve";

// Returns the program beside this one, or where packages keep it.
fs::path server_program() {
  std::error_code error;
  const fs::path here = os::executable_path(error).parent_path();
  check(!error, ErrorCode::io, "cannot find this program's folder: {}", error.message());
  for (const fs::path& place : {here / kProgram, here / "../libexec/tachyscope" / kProgram})
    if (fs::is_regular_file(place, error)) return place.lexically_normal();
  fail(ErrorCode::unsupported,
       "the server ({}) is not beside this program: `make serve` builds and starts it; it needs SQLite and "
       "prometheus-cpp",
       kProgram);
}

int run_serve(const ServeOptions& options, const std::vector<std::string>& words) {
  check_serve_options(options);
  const auto command = std::find(words.begin(), words.end(), "serve");
  const fs::path program = server_program();
  std::fflush(nullptr);
  const std::error_code failed = os::become(program, {command + (command != words.end()), words.end()});
  fail(ErrorCode::io, "{}: cannot start it: {}", program.string(), failed.message());
}

}  // namespace

Command add_serve(CommandLine& line, std::vector<std::string> words) {
  CommandOptions sub = line.add_command("serve", "make videos for clients over HTTP, under /v1/videos");
  auto options = std::make_shared<ServeOptions>();
  register_serve_options(sub, *options);
  sub.footer(
      "Examples:\n"
      "  tachyscope serve                       # the models that ship, at http://127.0.0.1:8190/v1\n"
      "  tachyscope serve --model wan=Wan2.1-T2V-14B-Diffusers --lora-dir loras --device cuda\n"
      "  tachyscope serve --keys keys --new-key alice\n"
      "  tachyscope serve --keys keys --host 0.0.0.0 --public-name video.example.org\n"
      "docs/server.md has the interface, with an example of each call.");
  return [options, words = std::move(words)] { return run_serve(*options, words); };
}

}  // namespace tachy::cli
