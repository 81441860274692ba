// The `tachyscope` binary: runs one sub-command, turns errors into exit codes.

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <system_error>

#include "api/exit_code.h"
#include "api/tachyscope.h"
#include "base/field.h"
#include "base/isa.h"
#include "base/log.h"
#include "base/os/signals.h"
#include "base/os/terminal.h"
#include "commands.h"
#include "field_options.h"
#include "inspect/doctor.h"
#include "interrupt.h"
#include "lost_file.h"
#include "say.h"

namespace tachy::cli {

extern const char* const kCommit;  // written by cmake/commit.cmake

namespace {

void install_signal_handlers() {
  install_interrupt();
  os::make_failed_writes_errors();
  end_at_lost_files();
}

std::string version_text() {
  const std::string only = compiled_for(), commit = kCommit;
  return fmt::format("tachyscope {}{}{}\nkernels for GPUs: {}", version(),
                     commit.empty() ? "" : " (commit " + commit + ")",
                     only.empty() ? "" : " (built for CPUs with " + only + " alone)", gpu_kernels());
}

int run(int argc, char** argv) {
  CommandLine line(
      "Tachyscope: videos from text with the Wan family of diffusion models, on any CPU and on NVIDIA GPUs.",
      version_text(),
      "`tachyscope COMMAND --help` prints the options of a command.\n"
      "Exit codes: 0 done, 1 internal error, 2 wrong option or value, 3 not found, 4 corrupt file,\n"
      "5 not supported, 6 cannot read or write, 7 out of memory, 8 NaN or Inf in a stage,\n"
      "9 the GPU or a rank failed, 10 a check missed, 130 cancelled (ctrl-C).\n"
      "Environment: TACHY_DEVICE=cpu is --device cpu for every command; TACHY_LOG=dispatch,plan,load\n"
      "prints what is chosen and why; TACHY_FORCE=op:implementation overrides that choice;\n"
      "TACHY_ISA=sse4, avx2 or avx512 runs as on a CPU with no newer instructions than that.");
  const std::pair<const char*, Command> commands[] = {
      {"generate", add_generate(line)}, {"talk", add_talk(line)},
      {"world", add_world(line)},       {"info", add_info(line)},
      {"lora", add_lora(line)},         {"convert", add_convert(line)},
      {"import", add_import(line)},     {"presets", add_presets(line)},
      {"stage", add_stage(line)},       {"vae", add_vae(line)},
      {"validate", add_validate(line)}, {"bench", add_bench(line)},
      {"compare", add_compare(line)},   {"all", add_all(line)},
      {"doctor", add_doctor(line)},     {"serve", add_serve(line, {argv + 1, argv + argc})}};
  int code = exit_code(ErrorCode::internal);
  const std::string chosen = line.parse(argc, argv, code);
  // A wrong TACHY_ISA or TACHY_LOG is reported before anything is opened.
  if (!chosen.empty()) isa_asked(), check_log_topics();
  for (const auto& [name, command] : commands)
    if (name == chosen) return command();
  return code;
}

}  // namespace
}  // namespace tachy::cli

int main(int argc, char** argv) {
  tachy::os::occupy_standard_streams();
  tachy::cli::install_signal_handlers();
  tachy::set_spelling(tachy::cli::option_of);
  const auto failed = [](tachy::ErrorCode code, const char* text) {
    tachy::cli::set_exit_code(tachy::exit_code(code));
    try {
      tachy::cli::say(stderr, fmt::format("tachyscope: {}\n", tachy::spelled(text)));
    } catch (const std::system_error&) {
      // Nobody can be told: only the exit code shows the error.
    }
    return tachy::exit_code(code);
  };
  try {
    const int code = tachy::cli::run(argc, argv);
    // Without this, an error in writing the rest of the buffer would go unnoticed (`tachyscope info >
    // /full/disk`).
    std::cout.flush();
    const bool written = std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    const bool to_nobody = tachy::cli::said_to_nobody() || (!written && tachy::os::reader_gone(stdout));
    if (to_nobody && code == 0) tachy::cli::end_by_closed_pipe();
    tachy::check(written || to_nobody, tachy::ErrorCode::io,
                 "cannot write to standard output: is the disk full?");
    tachy::cli::set_exit_code(code);
    return code;
  } catch (const tachy::Error& e) {
    if (tachy::cli::is_of_closed_pipe(e.message())) tachy::cli::end_by_closed_pipe();
    return failed(e.code(), e.message().c_str());
  } catch (const std::bad_alloc&) {
    return failed(tachy::ErrorCode::out_of_memory, "out of memory");
  } catch (const std::filesystem::filesystem_error& e) {
    const std::string text = fmt::format("{}: {}", e.path1().string(), e.code().message());
    return failed(tachy::ErrorCode::io, text.c_str());
  } catch (const std::system_error& e) {  // thrown by fmt::print
    if (tachy::os::reader_gone(stdout)) tachy::cli::end_by_closed_pipe();
    return failed(tachy::ErrorCode::io, fmt::format("cannot write to standard output: {}", e.what()).c_str());
  } catch (const std::exception& e) {
    return failed(tachy::ErrorCode::internal, e.what());
  }
}
