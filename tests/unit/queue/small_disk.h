// Runs a body in a process of its own, where it may break what it likes: the disk, its limits, itself.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/error.h"

namespace tachy::queue {

// Calls `body` in a child process, and returns the text that it returns, or what it threw.
template <class Body>
std::string in_child(Body&& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = std::string("thrown: ") + error.what();
    }
    [[maybe_unused]] const ssize_t told = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t count; (count = read(ends[0], bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "the process ended by signal " << WTERMSIG(status);
  return text;
}

// Puts a small disk onto the folder, for the calling process alone. Returns false if this user may not do
// that.
inline bool mount_small(const std::filesystem::path& folder, const char* size) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, size) == 0;
}
inline bool make_read_only(const std::filesystem::path& folder) {
  return mount("none", folder.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}

// From now on, no file of the calling process can grow beyond this size.
inline void limit_files(rlim_t bytes) {
  signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit { bytes, bytes };
  setrlimit(RLIMIT_FSIZE, &limit);
}

}  // namespace tachy::queue
