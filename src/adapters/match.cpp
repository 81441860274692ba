#include "adapters/match.h"

#include <fmt/format.h>

#include <algorithm>

#include "adapters/change_reader.h"
#include "base/error.h"
#include "weights/quote.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

bool has_piece(std::string_view text, std::initializer_list<std::string_view> pieces) {
  return std::ranges::any_of(pieces,
                             [&](std::string_view p) { return text.find(p) != std::string_view::npos; });
}

bool is_low_prefix(std::string_view prefix) { return has_piece(prefix, {"transformer_2", "dit2"}); }
bool is_high_prefix(std::string_view prefix) { return has_piece(prefix, {"transformer_1"}); }
bool is_text_prefix(std::string_view prefix) { return has_piece(prefix, {"text_encoder", "lora_te"}); }

void add_once(std::vector<std::string>& list, std::string_view text) {
  if (std::ranges::find(list, text) == list.end()) list.emplace_back(text);
}

// Returns the model to which a weight of this shape belongs, if that is known.
std::string made_for(const AdapterTarget& target, const AdapterLayer& layer) {
  const auto down = layer.tensors.find(AdapterRole::down);
  if (down == layer.tensors.end() || !target.weight || down->second->dims.size() < 2) return {};
  const std::vector<int64_t>& dims = down->second->dims;
  if (target.name == "patch_embedding") {
    const int64_t channels = dims[1], own = target.weight->dims.size() > 1 ? target.weight->dims[1] : 0;
    if (channels == own) return {};  // this shape fits; others do not
    const char* model = channels == 16   ? "a text-to-video model"
                        : channels == 36 ? "an image-to-video model"
                        : channels == 48 ? "Wan 2.2 TI2V-5B"
                                         : "another model";
    return fmt::format("its patch embedding reads {} channels, like that of {}; this model's reads {}",
                       channels, model, own);
  }
  if (!target.name.ends_with("attn1.to_q")) return {};
  const int64_t width = dims[1], own = target.weight->dims.back();
  if (width == own) return {};
  const char* model = width == 1536   ? "the 1.3B models"
                      : width == 3072 ? "Wan 2.2 TI2V-5B"
                      : width == 5120 ? "the 14B models"
                                      : "another model";
  return fmt::format("its layers are {} wide, like those of {}; this model's are {}", width, model, own);
}

class Matcher {
 public:
  Matcher(const AdapterFile& file, const AdapterTargets& targets) : file_(file), targets_(targets) {
    for (const AdapterPart& part : targets.transformers) out_.parts.push_back({part.name, {}});
    if (targets.text_encoder) out_.parts.push_back({"text encoder", {}});
  }

  AdapterMatch run() {
    for (const AdapterLayer& layer : file_.layers) match(layer);
    for (const std::string& key : file_.unknown) unmatched(key, "this is not a tensor of an adapter");
    out_.layers = static_cast<int64_t>(file_.layers.size() + file_.unknown.size());
    return std::move(out_);
  }

 private:
  void unmatched(const std::string& key, std::string reason) {
    out_.unmatched.push_back({key, std::move(reason)});
  }
  std::vector<size_t> parts_of(std::string_view prefix) const;
  void match(const AdapterLayer& layer);
  bool match_text(const AdapterLayer& layer);
  bool take(const AdapterLayer& layer, const TargetNames::Found& found, AdapterMatch::Part& part);
  void describe(const AdapterLayer& layer, const TargetNames::Found& found);

  const AdapterFile& file_;
  const AdapterTargets& targets_;
  AdapterMatch out_;
};

// Returns the transformers for which a layer with this prefix is meant.
std::vector<size_t> Matcher::parts_of(std::string_view prefix) const {
  if (targets_.transformers.size() == 1)
    return is_low_prefix(prefix) || is_high_prefix(prefix) ? std::vector<size_t>{} : std::vector<size_t>{0};
  if (is_low_prefix(prefix)) return {1};
  if (is_high_prefix(prefix)) return {0};
  switch (targets_.expert) {
    case AdapterExpert::high:
      return {0};
    case AdapterExpert::low:
      return {1};
    default:
      return {0, 1};
  }
}

void Matcher::describe(const AdapterLayer& layer, const TargetNames::Found& found) {
  add_once(out_.prefixes, found.prefix);
  add_once(out_.suffixes, layer.suffix);
  const std::string_view name =
      std::string_view(layer.stem).substr(std::min(layer.stem.size(), found.prefix.size()));
  if (has_piece(name, {"self_attn", "cross_attn", "ffn.0", "ffn_0", "ffn.2", "ffn_2"}))
    out_.original_names = true;
  if (name.find('.') == std::string_view::npos && name.find('_') != std::string_view::npos)
    out_.underscores = true;
}

bool Matcher::take(const AdapterLayer& layer, const TargetNames::Found& found, AdapterMatch::Part& part) {
  if (found.ambiguous) {
    unmatched(layer.stem, "two layers of the model have this name when dots are written as underscores");
    return false;
  }
  LayerChanges read = read_layer(file_, layer, *found.target);
  if (!read.reason.empty()) {
    if (out_.hint.empty()) out_.hint = made_for(*found.target, layer);
    unmatched(layer.stem, std::move(read.reason));
    return false;
  }
  std::ranges::move(read.changes, std::back_inserter(part.changes));
  out_.zero += read.zero;
  return true;
}

bool Matcher::match_text(const AdapterLayer& layer) {
  const auto found = targets_.text_encoder ? targets_.text_encoder->find(layer.stem) : TargetNames::Found{};
  if (!found.target || !is_text_prefix(found.prefix)) return false;
  describe(layer, found);
  if (take(layer, found, out_.parts.back())) ++out_.matched;
  return true;
}

void Matcher::match(const AdapterLayer& layer) {
  if (match_text(layer)) return;
  const auto found = targets_.transformers.front().names->find(layer.stem);
  if (!found.target || is_text_prefix(found.prefix)) {
    const bool control = layer.stem.find("vace_blocks") != layer.stem.npos;
    return unmatched(layer.stem, control ? "the model has no control block of this name, as VACE models have"
                                         : "the model has no layer of this name");
  }
  describe(layer, found);
  const std::vector<size_t> parts = parts_of(found.prefix);
  if (parts.empty())
    return unmatched(
        layer.stem,
        fmt::format("it is for the {}-noise expert of two, but this model has only one transformer",
                    is_low_prefix(found.prefix) ? "low" : "high"));
  for (const size_t i : parts) {
    const auto there = targets_.transformers[i].names->find(layer.stem);
    if (!there.target) return unmatched(layer.stem, "the model has no layer of this name");
    if (!take(layer, there, out_.parts[i])) return;
  }
  ++out_.matched;
}

// If the caller names no expert, the file's keys decide, then its name, the name from its trainer, and its
// folder's name.
struct FoundExpert {
  AdapterExpert expert = AdapterExpert::unsaid;  // for layers whose keys name none
  std::string from;
};
constexpr const char* kByKeys = "its keys";

FoundExpert expert_of_file(const AdapterFile& file) {
  for (const AdapterLayer& layer : file.layers) {
    const std::string_view begin = std::string_view(layer.stem).substr(0, 40);
    // A file with the prefix "transformer_2." calls the high-noise expert "transformer.".
    if (is_low_prefix(begin) || is_high_prefix(begin)) return {AdapterExpert::high, kByKeys};
  }
  const auto by_word = [](const NamedExpert& named, std::string_view place) {
    return FoundExpert{named.expert, fmt::format("the word {} in {}", in_quotes(named.word), place)};
  };
  if (const NamedExpert named = expert_in_name(file.path.filename().string());
      named.expert != AdapterExpert::unsaid)
    return by_word(named, "its name");
  const auto& metadata = file.source->metadata();
  if (const auto trained = metadata.find("ss_output_name"); trained != metadata.end())
    if (const NamedExpert named = expert_in_name(trained->second); named.expert != AdapterExpert::unsaid)
      return by_word(named, "the name that its trainer gave it (ss_output_name)");
  const std::string folder = fs::absolute(file.path).parent_path().filename().string();
  if (const NamedExpert named = expert_in_name(folder);
      named.certain || (named.expert != AdapterExpert::unsaid && named.word.size() == folder.size()))
    return by_word(named, "its folder's name");
  return {};
}

}  // namespace

AdapterMatch match_adapter(const AdapterFile& file, const AdapterTargets& targets) {
  AdapterTargets own = targets;
  check(own.transformers.size() == 2 || own.expert == AdapterExpert::unsaid ||
            own.expert == AdapterExpert::both,
        ErrorCode::invalid_argument,
        "`loras`: {}: @{} names one of two experts, but this model has only one transformer; leave the @ "
        "part out",
        file.path.string(), to_string(own.expert));
  if (own.transformers.size() != 2) return Matcher(file, own).run();
  std::string from = fmt::format("@{}", to_string(own.expert));
  if (own.expert == AdapterExpert::unsaid) {
    const FoundExpert found = expert_of_file(file);
    check(found.expert != AdapterExpert::unsaid, ErrorCode::invalid_argument,
          "`loras`: {}: the model has two experts, and neither the file's name nor its keys say which one it "
          "is for; add @high, @low or @both to its name",
          file.path.string());
    own.expert = found.expert, from = found.from;
  }
  AdapterMatch match = Matcher(file, own).run();
  match.expert = own.expert;
  if (from == kByKeys && !match.parts[1].changes.empty())
    match.expert = match.parts[0].changes.empty() ? AdapterExpert::low : AdapterExpert::both;
  match.expert_from = std::move(from);
  return match;
}

}  // namespace tachy
