#include "models/wan/branches/audio/audio_config.h"

#include "base/error.h"
#include "models/wan/branches/audio/audio_projection.h"

namespace tachy {
namespace {

constexpr const char* kBranch = "audio branch";  // the name that messages use

constexpr const char* kFirst = "audio_proj.proj1.weight";
constexpr const char* kOthers = "audio_proj.proj1_vf.weight";
constexpr const char* kTokens = "audio_proj.proj3.weight";
constexpr const char* kNorm = "audio_proj.norm.weight";

// Returns how many times `unit` fits into `extent`, a size of the tensor `name`.
int64_t times(const TensorSource& source, const char* name, int64_t extent, int64_t unit, int64_t most) {
  check(extent > 0 && extent % unit == 0 && extent / unit <= most, ErrorCode::corrupt,
        "{}: tensor '{}' has an extent of {}, expected a multiple of {}, at most {} times it",
        source.files_text(), name, extent, unit, most);
  return extent / unit;
}

}  // namespace

bool has_audio_branch(const TensorSource& source) {
  return source.has(kFirst) && source.has(kOthers) &&
         source.has("blocks.0.audio_cross_attn.kv_linear.weight");
}

void add_audio_branch(WanConfig& config, const TensorSource& source) {
  if (!has_audio_branch(source)) return;
  const auto &first = source.dims_of(kBranch, kFirst, 2), &others = source.dims_of(kBranch, kOthers, 2);
  const int64_t width = source.dims_of(kBranch, kNorm, 1)[0];
  check(width >= 1 && width <= 1 << 16, ErrorCode::corrupt, "{}: tensor '{}' has {} values, expected 1 to {}",
        source.files_text(), kNorm, width, 1 << 16);
  const int64_t layers = times(source, kFirst, first[1], AudioWindow::kFirstRows * width, 4096);
  check(others[1] == AudioWindow::kRows * layers * width && others[0] == first[0], ErrorCode::corrupt,
        "{}: tensor '{}' is [{}, {}], expected [{}, {}] beside '{}'", source.files_text(), kOthers, others[0],
        others[1], first[0], AudioWindow::kRows * layers * width, kFirst);
  config.audio_dim = width, config.audio_layers = layers, config.audio_hidden = first[0];
  config.audio_tokens = times(source, kTokens, source.dims_of(kBranch, kTokens, 2)[0], width, 4096);
}

}  // namespace tachy
