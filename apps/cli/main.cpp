// The `tachyscope` binary: parses the command line, runs one sub-command, turns errors into exit codes.

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <new>

#include "api/exit_code.h"
#include "api/tachyscope.h"
#include "commands.h"

namespace tachy::cli {

std::atomic<bool> g_cancel{false};

namespace {

extern "C" void on_signal(int) {
  if (g_cancel.exchange(true)) std::_Exit(exit_code(ErrorCode::cancelled));
}

int run(int argc, char** argv) {
  CLI::App app{"Tachyscope: videos from text with the Wan family of diffusion models, on any CPU.",
               "tachyscope"};
  app.set_version_flag("--version", "tachyscope " + version());
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 internal error, 2 wrong option or value, 3 not found, 4 corrupt file, 5 not "
      "supported,\n"
      "6 cannot read or write, 7 out of memory, 8 NaN or Inf in a stage, 130 cancelled (ctrl-C).\n"
      "TACHY_LOG=dispatch,plan,load prints what is chosen and why; TACHY_FORCE=op:implementation overrides "
      "it.");
  const std::pair<const char*, Command> commands[] = {
      {"generate", add_generate(app)}, {"info", add_info(app)}, {"stage", add_stage(app)}};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : exit_code(ErrorCode::invalid_argument);
  }
  for (const auto& [name, command] : commands)
    if (app.got_subcommand(name)) return command();
  return exit_code(ErrorCode::internal);
}

}  // namespace
}  // namespace tachy::cli

int main(int argc, char** argv) {
  std::signal(SIGINT, tachy::cli::on_signal);
  std::signal(SIGTERM, tachy::cli::on_signal);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return tachy::cli::run(argc, argv);
  } catch (const tachy::Error& e) {
    fmt::print(stderr, "tachyscope: {}\n", e.message());
    return tachy::exit_code(e.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "tachyscope: out of memory\n");
    return tachy::exit_code(tachy::ErrorCode::out_of_memory);
  } catch (const std::exception& e) {
    fmt::print(stderr, "tachyscope: {}\n", e.what());
    return tachy::exit_code(tachy::ErrorCode::internal);
  }
}
