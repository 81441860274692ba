#include "base/os/process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/os/posix/calls.h"

namespace tachy::os {
namespace {

constexpr const char* kExecutable = "/proc/self/exe";

}  // namespace

ProcessId process_id() { return ::getpid(); }

void offer_variable(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 0); }

bool process_exists(ProcessId id) { return ::kill(id, 0) == 0 || errno != ESRCH; }

std::filesystem::path executable_path(std::error_code& error) {
  return std::filesystem::read_symlink(kExecutable, error);
}

FileFacts executable_facts() {
  struct stat info {};
  return ::stat(kExecutable, &info) == 0 ? facts_of(info) : FileFacts();
}

std::error_code become(const std::filesystem::path& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  return last_error();
}

size_t allow_open_files(size_t most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;  // POSIX promises fewer; every system has more
  if (limit.rlim_cur < most) {
    rlimit wanted = limit;
    wanted.rlim_cur = std::min<rlim_t>(limit.rlim_max, most);
    if (::setrlimit(RLIMIT_NOFILE, &wanted) == 0) limit = wanted;
  }
  return static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(SIZE_MAX)));
}

void call_in_forked_child(void (*then)()) { ::pthread_atfork(nullptr, nullptr, then); }

}  // namespace tachy::os
