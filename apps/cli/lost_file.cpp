#include "lost_file.h"

#include <cstdint>
#include <cstdlib>

#include "api/exit_code.h"
#include "base/last_words.h"
#include "base/os/signals.h"
#include "base/os/terminal.h"

namespace tachy::cli {
namespace {

// A file that is mapped into memory cannot be read. A signal handler may only make a few system calls.
void end_by_lost_file(const void* address) {
  uint64_t offset = 0;
  const char* file = file_mapped_at(address, &offset);
  if (!file) return;
  remove_temporaries();
  const auto say = os::write_to_standard_error;
  char digits[24], *at = digits + sizeof digits;
  *--at = 0;
  do *--at = static_cast<char>('0' + offset % 10);
  while (offset /= 10);
  say("tachyscope: "), say(file), say(": cannot be read any more at byte "), say(at);
  say(": it was cut short while in use, or its disk failed; with --weights read it is read into memory at "
      "the start\n");
  std::_Exit(exit_code(ErrorCode::io));
}

}  // namespace

void end_at_lost_files() { os::on_unreadable_page(end_by_lost_file); }

}  // namespace tachy::cli
