// The server's program, which `tachyscope serve` starts: reads the same options, serves, turns errors into exit codes.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "api/exit_code.h"
#include "api/tachyscope.h"
#include "base/field.h"
#include "base/log.h"
#include "base/os/signals.h"
#include "base/os/terminal.h"
#include "cli/field_options.h"
#include "cli/lost_file.h"
#include "cli/say.h"
#include "cli/serve_options.h"
#include "ending.h"
#include "server.h"
#include "web_api/keys.h"
#include "workers/crashes.h"

namespace tachy::serve_app {
namespace {

int make_key(const cli::ServeOptions& o) {
  const std::string key = naming("--keys", [&] { return web_api::new_key(o.keys, o.new_key); });
  cli::say(stdout, key + "\n");
  cli::say(stderr, fmt::format("This is the key of {}. It is shown only now: {} has its hash.\n", o.new_key,
                               o.keys.string()));
  return 0;
}

int run(int argc, char** argv) {
  cli::CommandLine line("Tachyscope's server: videos over HTTP.", "tachyscope " + version(),
                        "docs/server.md has the interface.");
  cli::ServeOptions options;
  cli::CommandOptions command = line.add_command("serve", "serve videos over HTTP");
  cli::register_serve_options(command, options);
  // The command's name is put in front, so that options are read as `tachyscope serve` reads them.
  std::string name = "serve";
  std::vector<char*> words{argv[0], name.data()};
  words.insert(words.end(), argv + 1, argv + argc);
  int code = exit_code(ErrorCode::internal);
  if (line.parse(static_cast<int>(words.size()), words.data(), code).empty()) return code;
  set_quiet(options.quiet);
  cli::check_serve_options(options);
  return options.new_key.empty() ? serve(options) : make_key(options);
}

}  // namespace
}  // namespace tachy::serve_app

int main(int argc, char** argv) {
  tachy::os::occupy_standard_streams();
  tachy::serve_app::install_ending();
  tachy::os::make_failed_writes_errors();
  tachy::cli::end_at_lost_files();
  tachy::workers::leave_word_of_crashes();
  tachy::set_spelling(tachy::cli::option_of);
  const auto failed = [](tachy::ErrorCode code, const std::string& text) {
    try {
      tachy::cli::say(stderr, fmt::format("tachyscope: {}\n", tachy::spelled(text)));
    } catch (const std::system_error&) {
      // Nobody can be told: only the exit code shows the error.
    }
    return tachy::exit_code(code);
  };
  try {
    return tachy::serve_app::run(argc, argv);
  } catch (const tachy::Error& e) {
    return failed(e.code(), e.message());
  } catch (const std::bad_alloc&) {
    return failed(tachy::ErrorCode::out_of_memory, "out of memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return failed(tachy::ErrorCode::io, fmt::format("{}: {}", e.path1().string(), e.code().message()));
  } catch (const std::exception& e) {
    return failed(tachy::ErrorCode::internal, e.what());
  }
}
