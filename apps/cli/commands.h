// The command line's sub-commands. Each add_… registers its options; the returned function runs the command.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "command_line.h"

namespace tachy::cli {

Command add_generate(CommandLine& line);
Command add_talk(CommandLine& line);
Command add_world(CommandLine& line);
Command add_info(CommandLine& line);
Command add_convert(CommandLine& line);
Command add_import(CommandLine& line);
Command add_presets(CommandLine& line);
Command add_lora(CommandLine& line);
Command add_stage(CommandLine& line);
Command add_vae(CommandLine& line);
Command add_validate(CommandLine& line);
Command add_bench(CommandLine& line);
Command add_compare(CommandLine& line);
Command add_all(CommandLine& line);
Command add_doctor(CommandLine& line);
// `words` are the program's arguments, which another program gets.
Command add_serve(CommandLine& line, std::vector<std::string> words);

// Becomes true with the first ctrl-C or SIGTERM (interrupt.h).
extern std::atomic<bool> g_cancel;

}  // namespace tachy::cli
