#include "base/full_disk.h"

#include <algorithm>
#include <initializer_list>
#include <system_error>

namespace tachy {

bool says_full(std::string_view message) {
  if (message.find("disk is full") != message.npos) return true;  // as SQLite says it
  return std::ranges::any_of(
      std::initializer_list<std::errc>{std::errc::no_space_on_device, std::errc::file_too_large},
      [&](std::errc e) { return message.find(std::make_error_code(e).message()) != message.npos; });
}

}  // namespace tachy
