#include "base/os/process.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/os/posix/calls.h"

namespace tachy::os {
namespace {

constexpr const char* kExecutable = "/proc/self/exe";

}  // namespace

ProcessId process_id() { return ::getpid(); }

bool process_exists(ProcessId id) { return ::kill(id, 0) == 0 || errno != ESRCH; }

std::filesystem::path executable_path(std::error_code& error) {
  return std::filesystem::read_symlink(kExecutable, error);
}

FileFacts executable_facts() {
  struct stat info {};
  return ::stat(kExecutable, &info) == 0 ? facts_of(info) : FileFacts();
}

void call_in_forked_child(void (*then)()) { ::pthread_atfork(nullptr, nullptr, then); }

}  // namespace tachy::os
