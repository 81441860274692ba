// Commands and their options, as seen by the files that define them. Only command_line.cpp knows the parser
// behind them (CLI11): a file that includes CLI11 takes a compiler half a minute.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tachy::cli {

// One option. Members return it, so that calls chain: options.add_option(…)->group(…)->required().
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option* operator->() { return this; }

  Option group(const char* name);
  Option required();
  Option allow_extra_args(bool allow);  // whether a repeatable option may take several values at once
  // Checks the option's text: the function returns "" if nothing is wrong with it.
  Option check(std::function<std::string(const std::string&)> what_is_wrong);

 private:
  CLI::Option* option_;
};

// The options of one command. Names are "-o,--output,--other-spelling", without dashes for a positional
// argument. If an option that takes one value is given twice, the last one counts; an option whose target is
// a vector may repeat.
class CommandOptions {
 public:
  explicit CommandOptions(CLI::App* app) : app_(app) {}

  // T is std::string, std::filesystem::path, int, double, uint64_t, std::optional of string or of a number,
  // or std::vector of string, path or uint64_t.
  template <class T>
  Option add_option(const std::string& names, T& target, const std::string& help);
  Option add_flag(const std::string& names, bool& target, const std::string& help);
  void alias(const std::string& name);
  void footer(const std::string& text);
  // --help prints only these options, in this order, if there are more than people read at once, each under
  // the spelling given here. --help-all prints all of them by their groups.
  void short_help(std::vector<std::string> names);

 private:
  CLI::App* app_;
};

std::function<std::string(const std::string&)> between(double least, double most);
std::function<std::string(const std::string&)> one_of(std::vector<std::string> names);

using Command = std::function<int()>;  // returns the exit code; throws tachy::Error

class CommandLine {
 public:
  CommandLine(const std::string& about, const std::string& version, const std::string& footer);
  ~CommandLine();

  CommandOptions add_command(const std::string& name, const std::string& help);
  // Returns the name of the command that the arguments choose. If there is none to run, prints help, the
  // version or what is wrong, and sets `code`.
  std::string parse(int argc, char** argv, int& code);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace tachy::cli
