// Runs the built command line as a user would and keeps its output. With TACHY_TEST_EMULATOR, for example
// "qemu-x86_64 -cpu Haswell", it runs as on another CPU.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tachy::test {

namespace fs = std::filesystem;

inline std::string golden(const std::string& name) {
  return std::string(TACHY_SOURCE_DIR) + "/tests/golden/" + name;
}
inline std::string model_path(bool original = false) {
  return golden(original ? "pipeline/original" : "pipeline/model");
}

inline std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Done {
  int code = -1;     // exit code, or 1000 + the signal that ended it
  long peak_kb = 0;  // highest resident size
  std::string out, err;
};

// The fixture gives each test its own folder, which is also the binary's working folder.
class CliTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tachyscope-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::error_code ec;
    fs::remove_all(folder_, ec);
  }

  pid_t start(const std::vector<std::string>& args) {
    const char* emulator = std::getenv("TACHY_TEST_EMULATOR");
    std::istringstream before(emulator ? emulator : "");
    std::vector<std::string> words{std::istream_iterator<std::string>(before), {}};
    words.emplace_back(TACHY_BINARY);
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string out = folder_.string() + ".out", err = folder_.string() + ".err";
    const pid_t child = fork();
    if (child == 0) {
      const int o = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const int e = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const int i = open("/dev/null", O_RDONLY);
      if (o < 0 || e < 0 || chdir(folder_.c_str()) != 0) _exit(99);
      dup2(i, 0), dup2(o, 1), dup2(e, 2);
      // Tests run on the CPU, even on a machine with a GPU, unless --device says otherwise.
      if (device_.empty())
        unsetenv("TACHY_DEVICE");
      else
        setenv("TACHY_DEVICE", device_.c_str(), 1);
      execvp(argv[0], argv.data());
      _exit(98);
    }
    return child;
  }
  Done finish(pid_t child) {
    int status = 0;
    struct rusage usage {};
    Done done;
    if (child < 0 || wait4(child, &status, 0, &usage) != child) return done;
    done.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    done.peak_kb = usage.ru_maxrss;
    const fs::path out = folder_.string() + ".out", err = folder_.string() + ".err";
    done.out = read_text(out), done.err = read_text(err);
    fs::remove(out), fs::remove(err);
    return done;
  }
  Done run(const std::vector<std::string>& args) { return finish(start(args)); }

  // Returns the arguments of `generate` with the tiny model.
  std::vector<std::string> generate(std::vector<std::string> more, bool original = false) const {
    std::vector<std::string> args{"generate", "-m", model_path(original)};
    if (std::none_of(more.begin(), more.end(), [](const auto& w) { return w == "-t" || w == "--threads"; }))
      args.insert(args.end(), {"-t", "2"});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  // Returns the commands that --help lists; an alias may follow a name.
  std::vector<std::string> commands() {
    std::vector<std::string> out;
    std::istringstream help(run({"--help"}).out);
    bool listed = false;
    for (std::string line; std::getline(help, line);) {
      if (line.starts_with("Subcommands")) {
        listed = true;
      } else if (listed) {
        std::istringstream words(line);
        std::string name;
        // Continuation lines begin further to the right.
        if (line.starts_with("  ") && !line.starts_with("   ") && words >> name)
          out.push_back(name.substr(0, name.find(',')));
        if (line.empty()) break;
      }
    }
    return out;
  }

  std::set<std::string> files() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_)) out.insert(entry.path().filename().string());
    return out;
  }
  fs::path path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  fs::path folder_;
  std::string device_ = "cpu";  // TACHY_DEVICE; "": not set
};

}  // namespace tachy::test
