// The pages under docs/ match the program: docs/options.md lists every option of every command and every
// environment variable, and no others; the commands in README and docs/ have the options that they show.
#include <map>
#include <regex>

#include "base/environment.h"
#include "binary.h"

namespace tachy::test {
namespace {

using Names = std::set<std::string>;

const fs::path kSource = TACHY_SOURCE_DIR;

class Docs : public CliTest {
 protected:
  // Returns every spelling of every option that `command --help-all` lists.
  const Names& options(const std::string& command) {
    Names& out = known_[command];
    if (!out.empty()) return out;
    // Without a command, --help-all also lists the commands' options.
    std::istringstream help(command.empty() ? run({"--help"}).out : run({command, "--help-all"}).out);
    for (std::string line; std::getline(help, line);) {
      if (!line.starts_with("  -")) continue;
      std::istringstream names(line.substr(2, line.find(' ', 2) - 2));
      for (std::string name; std::getline(names, name, ',');) out.insert(name);
    }
    return out;
  }

  // Returns these spellings without the options of help itself, which every command must have.
  Names own_options(const std::string& command) {
    Names out = options(command);
    for (const char* help : {"-h", "--help", "--help-all"}) EXPECT_EQ(out.erase(help), 1u) << command;
    return out;
  }

  std::map<std::string, Names> known_;
};

// Returns the texts between backticks in the first cell of a table's rows, by the heading above the table.
std::map<std::string, Names> names_by_heading(const fs::path& page) {
  std::map<std::string, Names> out;
  std::istringstream text(read_text(page));
  std::string heading;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("#")) heading = line.substr(line.find_first_not_of("# "));
    if (!line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find(" | "));
    static const std::regex name("`([^`]+)`");
    for (std::sregex_iterator it(cell.begin(), cell.end(), name), end; it != end; ++it)
      EXPECT_TRUE(out[heading].insert((*it)[1]).second) << (*it)[1] << " is listed twice under " << heading;
  }
  return out;
}

TEST_F(Docs, OptionsPageListsWhatHelpLists) {
  auto pages = names_by_heading(kSource / "docs/options.md");
  for (const char* help : {"-h", "--help", "--help-all"}) EXPECT_EQ(pages["tachyscope"].erase(help), 1u);
  const auto all = commands();
  ASSERT_THAT(all, testing::IsSupersetOf({"generate", "info", "stage", "validate", "bench", "doctor"}));
  size_t found = 0;
  for (const std::string& command : all) {
    const Names listed = own_options(command);
    found += listed.size();
    if (command == "talk") {  // both commands have the same options
      EXPECT_EQ(listed, own_options("generate"));
      continue;
    }
    EXPECT_EQ(pages[command], listed)
        << "docs/options.md (left) and `tachyscope " << command << " --help-all` (right) differ";
  }
  EXPECT_EQ(pages["tachyscope"], own_options(""));
  EXPECT_GT(found, 100u) << "the options of --help-all were not all understood";
}

// --help fits on a screen: for a command with many options it shows the most used ones and says where the
// others are.
TEST_F(Docs, ShortHelpShowsFewOptionsAndNamesTheRest) {
  std::set<std::string> shortened;
  for (const std::string& command : commands()) {
    const std::string help = run({command, "--help"}).out;
    std::istringstream text(help);
    std::string last;
    size_t shown = 0;
    for (std::string line; std::getline(text, line); last = line) {
      EXPECT_LE(line.size(), 120u) << line;
      static const std::regex option("^  (?:-\\w,? ?)?(--[\\w-]+)");
      std::smatch match;
      if (!std::regex_search(line, match, option)) continue;
      ++shown;
      EXPECT_THAT(options(command), testing::Contains(match[1])) << line;
    }
    EXPECT_GE(shown, 2u) << help;
    EXPECT_LE(shown, 26u) << help;
    if (help == run({command, "--help-all"}).out) continue;
    shortened.insert(command);
    EXPECT_THAT(
        last, testing::MatchesRegex("`tachyscope " + command + " --help-all` prints all [0-9]+ options\\."));
  }
  EXPECT_THAT(shortened, testing::ElementsAre("bench", "generate", "serve", "talk", "world"));
}

TEST_F(Docs, HelpOfAllCommandsListsTheirOptions) {
  const std::string help = run({"--help-all"}).out;
  for (const std::string& command : commands())
    for (const std::string& option : own_options(command))
      EXPECT_THAT(help, testing::HasSubstr(option)) << command;
}

// tests/unit/base/environment_test.cpp compares the variables that the sources read with the same list.
TEST_F(Docs, OptionsPageListsTheEnvironmentVariables) {
  const fs::path page = kSource / "docs/options.md";
  Names listed;
  std::map<std::string, std::string> effects, said;
  for (const EnvironmentVariable& v : environment_variables()) {
    listed.insert(std::string(v.name));
    effects[std::string(v.name)] = v.effect == Effect::same_bits ? "same bits"
                                   : v.field.empty()             ? "recorded"
                                                     : "recorded as `" + std::string(v.field) + "`";
  }
  EXPECT_EQ(names_by_heading(page)["Environment variables"], listed);
  std::istringstream text(read_text(page));
  for (std::string line; std::getline(text, line);) {
    static const std::regex row("^\\| (`[A-Z][A-Z0-9_]+`.*?) \\| .* \\| (.*) \\|$"), name("`([^`]+)`");
    std::smatch match;
    if (!std::regex_search(line, match, row)) continue;
    const std::string cell = match[1];
    for (std::sregex_iterator it(cell.begin(), cell.end(), name), end; it != end; ++it)
      said[(*it)[1]] = match[2];
  }
  EXPECT_EQ(said, effects) << "docs/options.md (left) and src/base/environment.cpp (right) differ";
}

TEST_F(Docs, CommandsThatAreShownHaveTheirOptions) {
  std::vector<fs::path> pages = {kSource / "README.md"};
  for (const auto& entry : fs::directory_iterator(kSource / "docs")) pages.push_back(entry.path());
  const auto all = commands();
  int shown = 0;
  for (const fs::path& page : pages) {
    std::istringstream text(read_text(page));
    for (std::string line; std::getline(text, line);) {
      static const std::regex call("^    build/tachyscope (\\w+)([^#]*)"),
          option("(^| )(--?[a-zA-Z][\\w-]*)");
      std::smatch match;
      if (!std::regex_search(line, match, call)) continue;
      ++shown;
      const std::string command = match[1], rest = match[2];
      EXPECT_THAT(all, testing::Contains(command)) << page << ": " << line;
      for (std::sregex_iterator it(rest.begin(), rest.end(), option), end; it != end; ++it)
        EXPECT_THAT(options(command), testing::Contains((*it)[2])) << page << ": " << line;
    }
  }
  EXPECT_GT(shown, 10);
}

// Links between the pages, and from them to other files, have existing targets.
TEST_F(Docs, LinksLeadToFiles) {
  std::vector<fs::path> pages = {kSource / "README.md", kSource / "ARCHITECTURE.md",
                                 kSource / "CONTRIBUTING.md", kSource / "bench/NOTES.md"};
  for (const auto& entry : fs::directory_iterator(kSource / "docs")) pages.push_back(entry.path());
  int links = 0;
  for (const fs::path& page : pages) {
    const std::string text = read_text(page);
    static const std::regex link("\\]\\(([^)#:]+)(#[^)]*)?\\)");
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it, ++links)
      EXPECT_TRUE(fs::exists(page.parent_path() / (*it)[1].str())) << page << ": " << (*it)[1];
  }
  EXPECT_GT(links, 20);
}

}  // namespace
}  // namespace tachy::test
