// The widgets of ComfyUI's nodes in the order in which its page stores their values ('widgets_values').
#pragma once

#include <span>
#include <string_view>

namespace tachy::workflows {

// The page adds a value after a seed ("randomize", "fixed" …) and after a file ("image"); neither is an input.
inline constexpr std::string_view kSeedControl = "(after a seed)", kUploadButton = "(upload)";

// Returns nothing for a type that is not known.
std::span<const std::string_view> widgets_of(std::string_view type);

}  // namespace tachy::workflows
