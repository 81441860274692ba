#include "models/wan/relatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "models/wan/branches/audio/audio_config.h"
#include "weights/json_file.h"
#include "weights/quote.h"

namespace tachy {
namespace {

using Entry = TensorSource::Entry;

constexpr size_t kMostShown = 6;
constexpr const char* kWhatRuns = "text-to-video, image-to-video and VACE models are";

// Tensors that only relatives of Wan's transformer have. Names that begin with a dot are inside a block.
struct Relative {
  std::string_view begins, name;
};
constexpr std::string_view kAudioBegins = "audio_proj.";  // InfiniteTalk's, and others'
constexpr Relative kRelatives[] = {
    {"motion_encoder.", "Wan-Animate"},
    {"face_adapter.", "Wan-Animate"},
    {"face_encoder.", "Wan-Animate"},
    {"pose_patch_embedding.", "Wan-Animate"},
    {"casual_audio_encoder.", "Wan-S2V"},
    {"audio_injector.", "Wan-S2V"},
    {"trainable_cond_mask.", "Wan-S2V"},
    {"cond_encoder.", "Wan-S2V"},
    {"frame_packer.", "Wan-S2V"},
    {"audio_proj.audio_proj_glob", "HuMo, another model that follows speech"},
    {".audio_cross_attn_wrapper.", "HuMo, another model that follows speech"},
    {kAudioBegins, "another model that follows speech"},
    {"audio_model.", "Ovi"},
    {"proj_model.", "FantasyTalking"},
    {"control_adapter.", "a Fun model with camera control"},
    {"ref_conv.", "a Fun model with control"},
    {"fps_embedding.", "SkyReels-V2 with frames' rates as an input"},
    {"fps_projection.", "SkyReels-V2 with frames' rates as an input"},
    {"patch_embedding_pose.", "a model that follows poses (SCAIL, SteadyDancer)"},
    {"patch_embedding_ref", "a model that follows poses (SteadyDancer)"},
    {"dwpose_embedding.", "UniAnimate"},
    {"randomref_embedding_pose.", "UniAnimate"},
    {".cam_encoder.", "ReCamMaster"},
    {".projector.", "ReCamMaster"},
    {".motion_attn.", "MTVCrafter"},
    {"motion_controller.", "a model with control of motion"},
    {"img_emb_ref", "WanToDance"},
    {"LQ_proj_in.", "FlashVSR"},
    {"add_conv_in.", "RealisDance"},
    {"time_embedding_r.", "a MeanFlow model"},
};

// The modules of Wan's transformer by diffusers' names; those that begin with a dot are inside a block.
// Modules for speech and for actions are checked where they are read.
constexpr std::string_view kKnown[] = {
    "patch_embedding.",
    "condition_embedder.text_embedder.linear_1.",
    "condition_embedder.text_embedder.linear_2.",
    "condition_embedder.time_embedder.linear_1.",
    "condition_embedder.time_embedder.linear_2.",
    "condition_embedder.time_proj.",
    "condition_embedder.image_embedder.",
    "proj_out.",
    "scale_shift_table",
    kAudioBegins,
    ".scale_shift_table",
    ".norm2.",
    ".norm_x.",
    ".attn1.to_",
    ".attn1.norm_q.",
    ".attn1.norm_k.",
    ".attn2.to_",
    ".attn2.norm_q.",
    ".attn2.norm_k.",
    ".attn2.add_k_proj.",
    ".attn2.add_v_proj.",
    ".attn2.norm_added_",  // norm_added_q is in some files, but nobody reads it, and diffusers ignores it too
    ".ffn.net.",
    ".audio_cross_attn.",
    ".action_model.",
    "vace_patch_embedding.",
    ".to_gate_compress.",  // Video Sparse Attention's
    ".attn1.proj_l.",      // Sparse-Linear Attention's
};

// Parts of the names of tensors that do not affect a video: computed tables, counts, and adapters beside the
// weights into which they were merged.
constexpr std::string_view kHarmless[] = {"freqs",        "rope", "inv_freq", "num_batches_tracked",
                                          "position_ids", "lora_"};

// Returns the name within a block, or within one of VACE's control blocks: ".ffn.net.2.weight" for
// "blocks.7.ffn.net.2.weight". Other names are returned whole.
std::string_view within_block(std::string_view name) {
  constexpr std::string_view kBlocks = "blocks.", kControl = "vace_";
  const size_t begin = name.starts_with(kControl) ? kControl.size() : 0;
  if (!name.substr(begin).starts_with(kBlocks)) return name;
  const size_t dot = name.find('.', begin + kBlocks.size());
  return dot == name.npos ? name : name.substr(dot);
}

// Says whether a tensor is of the projections that only VACE's control blocks have.
bool is_hint(std::string_view name, std::string_view within) {
  return name.starts_with("vace_blocks.") &&
         (within.starts_with(".proj_in.") || within.starts_with(".proj_out."));
}

// Returns the prefix that the file puts before the transformer's names, or "".
std::string_view prefix_of(const TensorSource& source) {
  constexpr std::string_view kPatch = "patch_embedding.weight";
  const Entry* patch = source.find(kPatch);
  const std::string_view name = patch ? std::string_view(patch->name_in_file) : kPatch;
  return name.ends_with(kPatch) ? name.substr(0, name.size() - kPatch.size()) : "";
}

// Says whether a tensor belongs to the transformer, in a file that may contain other parts, too.
bool is_own(const Entry& entry, std::string_view prefix) {
  static constexpr std::array<std::string_view, 8> kOthers = {
      "vae.",         "first_stage_model.", "text_encoder",   "cond_stage_model.",
      "clip_vision.", "conditioner.",       "image_encoder.", "model_ema."};
  if (!prefix.empty()) return entry.name_in_file.starts_with(prefix);
  return std::none_of(kOthers.begin(), kOthers.end(),
                      [&](auto other) { return entry.name.starts_with(other); });
}

// Says whether the tensor's numbers were learned. Integers and single numbers are settings and counts.
bool is_learned(const Entry& entry) {
  if (!entry.unusable.empty() || (!entry.derived && !is_float(entry.dtype))) return false;
  if (std::all_of(entry.dims.begin(), entry.dims.end(), [](int64_t extent) { return extent == 1; }))
    return false;
  return std::none_of(std::begin(kHarmless), std::end(kHarmless),
                      [&](auto word) { return entry.name.find(word) != entry.name.npos; });
}

std::string listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(kMostShown, names.size());
  const auto end = names.begin() + static_cast<int64_t>(shown);
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                     names.size() > shown ? fmt::format(" +{} more", names.size() - shown) : "");
}

}  // namespace

void refuse_relatives(const TensorSource& source) {
  const bool speech = has_audio_branch(source);
  const std::string_view prefix = prefix_of(source);
  std::vector<std::string> unknown;
  for (const Entry& entry : source.entries()) {
    if (!is_own(entry, prefix)) continue;
    const std::string_view name = within_block(entry.name);
    for (const auto& [begins, relative] : kRelatives)
      check((speech && begins == kAudioBegins) || !name.starts_with(begins), ErrorCode::unsupported,
            "{}: it is {} (tensor {}), which is not supported; {}", source.files_text(), relative,
            in_quotes(entry.name_in_file), kWhatRuns);
    const bool known = std::any_of(std::begin(kKnown), std::end(kKnown),
                                   [&](std::string_view begins) { return name.starts_with(begins); }) ||
                       is_hint(entry.name, name);
    if (!known && is_learned(entry)) unknown.push_back(in_quotes(entry.name_in_file));
  }
  check(unknown.empty(), ErrorCode::unsupported,
        "{}: {} of its tensors are not part of Wan's transformer: {}. It is another model derived from Wan, "
        "which is not supported, and without them it would make different videos; {}",
        source.files_text(), unknown.size(), listed(unknown), kWhatRuns);
}

void refuse_turbo_quantised(const TensorSource& source) {
  for (const Entry& entry : source.entries())
    check(
        !entry.name.ends_with(".int8_weight"), ErrorCode::unsupported,
        "{}: its linear layers are TurboDiffusion's in 8 bits (tensor {}), which are not supported; the file "
        "without -quant in its name is",
        source.files_text(), in_quotes(entry.name_in_file));
}

void refuse_other_class(const nlohmann::json& config, const std::string& where) {
  static constexpr Relative kClasses[] = {{"Animate", "Wan-Animate"},
                                          {"S2V", "Wan-S2V"},
                                          {"SkyReels", "SkyReels-V2"},
                                          {"ChronoEdit", "ChronoEdit"},
                                          {"LongCat", "LongCat-Video"}};
  const auto text = [&](const char* key) {
    const auto it = config.find(key);
    return it != config.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const std::string name = text("_class_name"), type = text("model_type");
  for (const auto& [part, relative] : kClasses)
    check(name.find(part) == name.npos, ErrorCode::unsupported,
          "{}: its config says that it is {} (_class_name {}), which is not supported; {}", where, relative,
          in_quotes(name), kWhatRuns);
  static constexpr Relative kTypes[] = {{"animate", "Wan-Animate"}, {"s2v", "Wan-S2V"}};
  for (const auto& [part, relative] : kTypes)
    check(type != part, ErrorCode::unsupported,
          "{}: its config says that it is {} (model_type {}), which is not supported; {}", where, relative,
          in_quotes(type), kWhatRuns);
}

void refuse_other_inputs(const WanConfig& c, const std::string& where) {
  struct Inputs {
    int64_t in, out;
    const char* name;
  };
  static constexpr Inputs kOthers[] = {{48, 16, "a Fun-Control model"},
                                       {52, 16, "Wan2.2-Fun-Control"},
                                       {32, 16, "a Fun model with camera control"},
                                       {148, 48, "Wan2.2-Fun-5B-Control"}};
  for (const auto& [in, out, name] : kOthers)
    check(c.in_channels != in || c.out_channels != out, ErrorCode::unsupported,
          "{}: it takes {} channels and makes {}: it is {}, which is not supported; {}", where, in, out, name,
          kWhatRuns);
  // Image-to-video models take noise, a mask, and the picture. The mask has one channel for each frame that
  // the VAE combines.
  const int64_t mask = c.in_channels - 2 * c.out_channels;
  check(c.in_channels == c.out_channels || (mask >= 1 && mask <= 8), ErrorCode::unsupported,
        "{}: it takes {} channels and makes {}: it needs an input of another kind, which is not supported; "
        "text-to-video models take {}, image-to-video models {}",
        where, c.in_channels, c.out_channels, c.out_channels, 2 * c.out_channels + 4);
}

}  // namespace tachy
