// The tensors of InfiniteTalk's audio branch, as its original and repackaged files name them (rename.h).
#include "weights/names/rename.h"

namespace tachy {
namespace {

std::string own_name(std::string_view name) {
  constexpr std::string_view kRepackaged = "multitalk_audio_proj.";
  if (name.starts_with(kRepackaged)) return "audio_proj." + std::string(name.substr(kRepackaged.size()));
  return std::string(name);
}

}  // namespace

std::shared_ptr<TensorSource> infinitetalk_source(const std::shared_ptr<TensorSource>& source) {
  return renamed(without_prefix(plain_source(source)), own_name);
}

}  // namespace tachy
