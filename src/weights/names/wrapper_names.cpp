#include "weights/names/wrapper_names.h"

#include <algorithm>

namespace tachy {
namespace {

constexpr std::string_view kWrappers[] = {
    "module",      "_orig_mod",       "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
    "_fpw_module", "_forward_module",
};

bool is_wrapper(std::string_view piece) { return std::ranges::find(kWrappers, piece) != std::end(kWrappers); }

}  // namespace

std::string without_wrappers(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  for (size_t dot; (dot = name.find('.')) != std::string_view::npos; name.remove_prefix(dot + 1))
    if (!is_wrapper(name.substr(0, dot))) out.append(name.substr(0, dot + 1));
  return out.append(name);
}

std::string without_underscored_wrappers(std::string_view name) {
  const auto wrapper_at = [&](size_t at) -> size_t {
    for (const std::string_view wrapper : kWrappers)
      if (wrapper.starts_with('_') && name.substr(at).starts_with(wrapper) &&
          name.substr(at + wrapper.size()).starts_with('_'))
        return wrapper.size() + 1;
    return 0;
  };
  std::string out;
  out.reserve(name.size());
  for (size_t at = 0; at < name.size();) {
    if (const size_t length = wrapper_at(at))
      at += length;
    else
      out += name[at++];
  }
  return out;
}

}  // namespace tachy
