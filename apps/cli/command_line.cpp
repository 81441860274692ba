#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>

#include "api/exit_code.h"
#include "say.h"

namespace tachy::cli {
namespace {

// Returns the number in a text, which must consist of nothing else; the parser's own rules would accept 0x10.
template <class T>
std::optional<T> number_in(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Returns "", or what is wrong with the text of a number; the parser's own words do not say what would work.
template <class T>
std::string check_number(const std::string& text, const char* expected) {
  return number_in<T>(text) ? "" : fmt::format("expected {}, got '{}'", expected, text);
}

// Sets rules for every option. An option that takes a number checks its text first. If one that takes a
// single value is given twice, the last one counts, as scripts that append to a command line expect.
void set_rules(CLI::Option* option) {
  if (option->get_items_expected_max() == 1) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const std::string type = option->get_type_name();
  if (type.starts_with("INT"))
    option->check([](const std::string& text) { return check_number<int64_t>(text, "a whole number"); });
  else if (type.starts_with("UINT"))
    option->check([](const std::string& text) {
      return check_number<uint64_t>(text, "a whole number from 0 to 18446744073709551615");
    });
  else if (type.starts_with("FLOAT"))
    option->check([](const std::string& text) { return check_number<double>(text, "a number"); });
}

// Returns what is wrong with the first word that no command takes, and what to do; "" if there is none. The
// parser's own message lists such words in reverse order.
std::string unexpected_word(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining(true);
  if (left.empty()) return "";
  const std::string& word = left.front();
  const auto commands = app.get_subcommands();
  const std::string command = commands.empty() ? "" : commands.front()->get_name() + " ";
  if (word.starts_with("-"))
    return fmt::format("{}: there is no such option; tachyscope {}--help-all lists the options", word,
                       command);
  if (commands.empty())
    return fmt::format("there is no command '{}'; tachyscope --help lists the commands", word);
  return fmt::format("'{}' was not expected; a prompt or a path with spaces has to be in quotes", word);
}

// Returns what the arguments lack or have too much, and which help says more.
std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error) {
  const auto commands = app.get_subcommands();
  if (commands.empty() || dynamic_cast<const CLI::ExtrasError*>(&error))
    if (std::string word = unexpected_word(app); !word.empty()) return word;
  if (commands.empty()) return "a command is missing; tachyscope --help lists the commands";
  if (dynamic_cast<const CLI::ValidationError*>(&error)) return error.what();  // it says what would work
  return fmt::format("{}; tachyscope {} --help-all says more", error.what(), commands.front()->get_name());
}

// Returns the arguments in reverse order, as the parser wants them. "--option=" becomes "--option" and an
// empty value (otherwise it would take the next argument).
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words;
  bool options = true;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    options = options && word != "--";
    const bool empty =
        options && word.size() > 3 && word.starts_with("--") && word.find('=') == word.size() - 1;
    if (empty) word.pop_back();
    words.push_back(std::move(word));
    if (empty) words.emplace_back();
  }
  std::reverse(words.begin(), words.end());
  return words;
}

// Breaks the text between words into lines of at most this many bytes.
std::string wrapped(const std::string& text, size_t width) {
  std::istringstream words(text);
  std::string out;
  size_t used = 0;
  for (std::string word; words >> word; used += word.size()) {
    if (used > 0) {
      const bool fits = used + 1 + word.size() <= width;
      out += fits ? ' ' : '\n';
      used = fits ? used + 1 : 0;
    }
    out += word;
  }
  return out;
}

constexpr size_t kHelpWidth = 100;

// Prints --help and --help-all.
class HelpText : public CLI::Formatter {
 protected:
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), kHelpWidth - get_column_width());
  }
};

// Prints --help for a command with more options than fit on a screen: shows the named ones, in that order,
// each under its shortest name and the one given here.
class ShortHelpText : public HelpText {
 public:
  explicit ShortHelpText(std::vector<std::string> names) : names_(std::move(names)) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    if (mode != CLI::AppFormatMode::Normal) return HelpText::make_help(app, name, mode);
    std::string options;
    for (const std::string& shown : names_) options += line_of(*app->get_option(shown), shown);
    options += line_of(*app->get_help_ptr(), "--help") + line_of(*app->get_help_all_ptr(), "--help-all");
    return fmt::format("{}{}{}\nThe options used most:\n{}\n{}\n`{} --help-all` prints all {} options.\n",
                       make_description(app), make_usage(app, name), make_positionals(app), options,
                       make_footer(app), name,
                       app->get_options([](const CLI::Option* o) { return o->nonpositional(); }).size());
  }

 private:
  std::string line_of(const CLI::Option& option, const std::string& shown) const {
    const auto& letters = option.get_snames();
    std::string left = "  " + (letters.empty() ? shown : "-" + letters[0] + ", " + shown);
    left += make_option_opts(&option);
    const std::string margin(get_column_width(), ' ');
    left += left.size() < margin.size() ? margin.substr(left.size()) : "\n" + margin;
    std::string help = make_option_desc(&option);
    for (size_t at = 0; (at = help.find('\n', at)) != help.npos; at += margin.size())
      help.insert(++at, margin);
    return left + help + "\n";
  }

  std::vector<std::string> names_;
};

}  // namespace

Option Option::group(const char* name) { return option_->group(name), *this; }
Option Option::required() { return option_->required(), *this; }
Option Option::allow_extra_args(bool allow) { return option_->allow_extra_args(allow), *this; }
Option Option::check(std::function<std::string(const std::string&)> what_is_wrong) {
  return option_->check(std::move(what_is_wrong)), *this;
}

template <class T>
Option CommandOptions::add_option(const std::string& names, T& target, const std::string& help) {
  CLI::Option* option = app_->add_option(names, target, help);
  set_rules(option);
  return Option(option);
}
#define TACHY_OPTION(...) \
  template Option CommandOptions::add_option(const std::string&, __VA_ARGS__& target, const std::string&);
TACHY_OPTION(std::string)
TACHY_OPTION(std::optional<std::vector<std::string>>)
TACHY_OPTION(std::filesystem::path)
TACHY_OPTION(int)
TACHY_OPTION(double)
TACHY_OPTION(uint64_t)
TACHY_OPTION(std::optional<std::string>)
TACHY_OPTION(std::optional<int>)
TACHY_OPTION(std::optional<uint64_t>)
TACHY_OPTION(std::optional<double>)
TACHY_OPTION(std::vector<std::string>)
TACHY_OPTION(std::vector<std::filesystem::path>)
TACHY_OPTION(std::vector<uint64_t>)
#undef TACHY_OPTION

Option CommandOptions::add_flag(const std::string& names, bool& target, const std::string& help) {
  return Option(app_->add_flag(names, target, help));
}
void CommandOptions::alias(const std::string& name) { app_->alias(name); }
void CommandOptions::footer(const std::string& text) { app_->footer(text); }
void CommandOptions::short_help(std::vector<std::string> names) {
  app_->set_help_flag("-h,--help", "print the options used most");
  app_->formatter(std::make_shared<ShortHelpText>(std::move(names)));
}

std::function<std::string(const std::string&)> between(double least, double most) {
  return [=](const std::string& text) {
    const std::optional<double> value = number_in<double>(text);
    if (value && *value >= least && *value <= most) return std::string();
    return fmt::format("expected {} to {}, got '{}'", least, most, text);
  };
}

std::function<std::string(const std::string&)> one_of(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& text) {
    if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
    return fmt::format("expected {}, got '{}'", fmt::join(names, " or "), text);
  };
}

CommandLine::CommandLine(const std::string& about, const std::string& version, const std::string& footer)
    : app_(std::make_unique<CLI::App>(about, "tachyscope")) {
  app_->formatter(std::make_shared<HelpText>());
  app_->set_help_flag("-h,--help", "print the commands; after a command, its options");
  app_->set_help_all_flag("--help-all", "print every option of every command");
  app_->set_version_flag("--version", version, "print the version");
  app_->require_subcommand(1);
  app_->footer(footer);
}
CommandLine::~CommandLine() = default;

CommandOptions CommandLine::add_command(const std::string& name, const std::string& help) {
  CLI::App* command = app_->add_subcommand(name, help);
  command->set_help_flag("-h,--help", "print this help");
  command->set_help_all_flag("--help-all", "print every option");
  return CommandOptions(command);
}

std::string CommandLine::parse(int argc, char** argv, int& code) {
  try {
    app_->parse(words_of(argc, argv));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // --help or --version
      code = app_->exit(e);
      return "";
    }
    say(stderr, fmt::format("tachyscope: {}\n", what_is_wrong(*app_, e)));
    code = exit_code(ErrorCode::invalid_argument);
    return "";
  }
  return app_->get_subcommands().front()->get_name();
}

}  // namespace tachy::cli
