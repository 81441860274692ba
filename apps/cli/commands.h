// The command line's sub-commands. Each add_… registers its options; the returned function runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>

namespace tachy::cli {

using Command = std::function<int()>;  // returns the exit code; throws tachy::Error

Command add_generate(CLI::App& app);
Command add_info(CLI::App& app);
Command add_stage(CLI::App& app);
Command add_validate(CLI::App& app);
Command add_bench(CLI::App& app);
Command add_compare(CLI::App& app);
Command add_all(CLI::App& app);
Command add_doctor(CLI::App& app);

// Set by the first ctrl-C or SIGTERM; a second one ends the process at once.
extern std::atomic<bool> g_cancel;

}  // namespace tachy::cli
