#include "base/os/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/os/posix/calls.h"

namespace tachy::os {

namespace fs = std::filesystem;

std::error_code rename_new(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EEXIST) return last_error();
  // Some file systems cannot rename like this. Giving the file a second name also fails if that name is
  // taken.
  if (::link(from.c_str(), to.c_str()) != 0) return last_error();
  ::unlink(from.c_str());
  return {};
}

std::error_code exchange_names(const fs::path& one, const fs::path& other) {
  return error_of(::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE));
}

std::error_code make_unique_folder(std::string& name) { return error_of(::mkdtemp(name.data()) == nullptr); }

void remove_file(const char* path) noexcept { ::unlink(path); }
void remove_empty_folder(const char* path) noexcept { ::rmdir(path); }

}  // namespace tachy::os
