#include "session/request_adapters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "adapters/merged.h"
#include "base/error.h"
#include "base/log.h"
#include "base/notice.h"
#include "base/sha256.h"
#include "request/presets.h"
#include "resolve/apply_preset.h"
#include "weights/names/rename.h"
#include "weights/quote.h"

namespace tachy {
namespace {

constexpr size_t kShown = 4;

LoraMode parse_mode(const std::string& mode) {
  if (mode == "merge") return LoraMode::merge;
  return mode == "runtime" ? LoraMode::runtime : LoraMode::automatic;
}

// Returns the layer's name in the registry, which is its weight's name without the ending.
std::string layer_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

// Says whether a product of the model can take the change: it must be a pair for a matrix, and nothing else.
bool can_be_added(const WeightChange& change, const TensorSource& source) {
  const TensorSource::Entry* entry = source.find(change.tensor);
  return change.kind == WeightChange::Kind::low_rank && !change.magnitude.defined() && entry &&
         entry->dims.size() == 2 && change.tensor.ends_with(".weight");
}

// Copies values whose address is not aligned: in a mapped file they may lie at any address.
Tensor aligned(const Tensor& t, std::vector<std::shared_ptr<const void>>& owners) {
  if (reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(dtype_size(t.dtype)) == 0) return t;
  const auto copy = std::make_shared<Buffer>(static_cast<size_t>(t.bytes()));
  std::memcpy(copy->data(), t.data, static_cast<size_t>(t.bytes()));
  owners.push_back(copy);
  return copy->tensor(t.dtype, t.shape());
}

void report(const LoraSpec& lora, const AdapterMatch& match, bool strict) {
  std::vector<std::string> reasons;
  for (const Unmatched& u : match.unmatched)
    if (reasons.size() < kShown) reasons.push_back(fmt::format("{}: {}", printable(u.key), u.reason));
  const size_t rest = match.unmatched.size() - reasons.size();
  std::string text =
      fmt::format("{}{}", fmt::join(reasons, "; "), rest > 0 ? fmt::format(" +{} more", rest) : "");
  if (!match.hint.empty()) text += "; " + match.hint;
  check(match.matched > 0, ErrorCode::not_found, "`loras`: {}: none of its {} layers fits the model: {}",
        lora.path, match.layers, match.layers == 0 ? "it has no tensors" : text);
  if (match.unmatched.empty()) return;
  check(!strict, ErrorCode::not_found, "`loras`: {}: {} of {} layers do not fit the model: {}", lora.path,
        match.unmatched.size(), match.layers, text);
  warn("{}: {} of {} layers do not fit the model and are left out: {}", lora.path, match.unmatched.size(),
       match.layers, text);
}

// A model that is given as an adapter would be a long list of layers that do not fit.
void refuse_model(const LoraSpec& lora, const AdapterFile& file) {
  if (!file.layers.empty()) return;
  const auto has = [&](std::string_view part) {
    return std::ranges::any_of(file.unknown,
                               [&](const std::string& name) { return name.find(part) != name.npos; });
  };
  const bool control = has("vace_blocks.") || has("vace_patch_embedding.");
  require(!control && !has("patch_embedding."),
          "`loras`: {}: this is a {}model and no adapter; give it as `model`", lora.path,
          control ? "VACE " : "");
}

// Includes size and time: a changed file under the same path is another adapter.
std::string file_key(const AdapterFile& file, Sha256& changes) {
  std::string key = fmt::format("{}, {}", file.path.string(), changes.hex());
  for (const auto& mapped : file.source->files())
    key += fmt::format(", {} bytes of {}", mapped->size(), mapped->modified_ns());
  return key + "; ";
}

class Opener {
 public:
  Opener(const ModelBundle& model, const VideoRequest& request, bool keep_loaded)
      : request_(request), names_(model), out_(std::make_shared<RequestAdapters>()) {
    out_->model = model;
    const LoraMode mode = parse_mode(request.lora_mode);
    add_ = mode == LoraMode::runtime || (mode == LoraMode::automatic && keep_loaded);
  }

  std::shared_ptr<const RequestAdapters> run() {
    Strengths strengths = {1, 1, 1};  // for adapters without a strength of their own
    if (const PresetRow* row = preset_row(out_->model, request_))
      strengths = {row->lora_strength, row->lora_strength_2.value_or(row->lora_strength), row->lora_strength};
    for (const std::string& text : request_.loras) {
      open(parse_lora(text), strengths);
      strengths = {1, 1, 1};
    }
    const auto merge = [&](size_t i, std::shared_ptr<TensorSource>& source) {
      if (!merged_[i].empty()) source = merged_source(source, merged_[i]);
    };
    merge(0, out_->model.transformer), merge(1, out_->model.transformer_2),
        merge(2, out_->model.text_encoder);
    return out_;
  }

 private:
  using Strengths = std::array<double, 3>;  // for transformer, transformer_2, text encoder

  void open(const LoraSpec& lora, const Strengths& otherwise);
  void take(double strength, const AdapterFile& file, const AdapterMatch::Part& part, size_t slot,
            const TensorSource& source);

  const VideoRequest& request_;
  const ModelNames names_;
  std::shared_ptr<RequestAdapters> out_;
  bool add_ = false;  // whether to add to products what can be added
  std::array<std::vector<WeightedChange>, 3> merged_;
};

void Opener::open(const LoraSpec& lora, const Strengths& otherwise) {
  const AdapterFile file = naming("`loras`", [&] { return open_adapter(lora.path); });
  refuse_model(lora, file);
  const AdapterMatch match = match_adapter(file, names_.targets(lora.expert));
  report(lora, match, request_.lora_unmatched == "error");
  log_topic("load", "{}: {} of {} layers", lora.path, match.matched, match.layers);
  if (match.expert != AdapterExpert::unsaid)
    say_line(
        fmt::format("{}: for {}, by {}", printable(lora.path), expert_text(match.expert), match.expert_from));
  const auto strength = [&](size_t slot) { return lora.strength.value_or(otherwise[slot]); };
  out_->files.push_back(file.source);
  const ModelBundle& m = out_->model;
  const auto transformers = static_cast<size_t>(m.experts());
  for (size_t i = 0; i < transformers; ++i)
    take(strength(i), file, match.parts[i], i, *m.transformer_of(static_cast<int>(i)));
  if (m.text_encoder) take(strength(2), file, match.parts.back(), 2, *m.text_encoder);
}

void Opener::take(double strength, const AdapterFile& file, const AdapterMatch::Part& part, size_t slot,
                  const TensorSource& source) {
  if (strength == 0) return;
  const size_t before = merged_[slot].size();
  // These hash the changed tensors and their scales, which depend on a file's expert and a config beside it.
  Sha256 merged, added;
  for (const auto& change : part.changes) {
    const std::string what = fmt::format("{} {} {}\n", change->tensor, kind_name(*change), change->scale);
    if (slot == 2 || !add_ || !can_be_added(*change, source)) {
      merged_[slot].push_back({change, strength, file.source});
      merged.add(what);
      continue;
    }
    out_->owners.push_back(change);
    out_->added[slot].push_back({.layer = layer_of(change->tensor),
                                 .a = aligned(change->down, out_->owners),
                                 .b = aligned(change->up, out_->owners),
                                 .scale = static_cast<float>(strength * change->scale)});
    added.add(what);
  }
  if (merged_[slot].size() > before)
    out_->keys[slot] += fmt::format("at {}, {}; ", strength, file_key(file, merged));
  if (slot < 2) out_->added_keys[slot] += file_key(file, added);
}

}  // namespace

// The strength follows the last colon, if a number does; a path may contain colons, too.
LoraSpec parse_lora(const std::string& text) {
  LoraSpec out{.path = text};
  for (const AdapterExpert expert : {AdapterExpert::high, AdapterExpert::low, AdapterExpert::both}) {
    const std::string label = std::string("@") + to_string(expert);
    if (!out.path.ends_with(label)) continue;
    out.path.resize(out.path.size() - label.size());
    out.expert = expert;
    break;
  }
  if (const size_t colon = out.path.rfind(':'); colon != std::string::npos && colon + 1 < out.path.size()) {
    const char *begin = out.path.data() + colon + 1, *end = out.path.data() + out.path.size();
    double value = 0;
    if (*begin == '+') ++begin;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (stop == end && error == std::errc()) {
      require(std::isfinite(value) && std::abs(value) <= 100,
              "`loras`: {}: expected a strength from -100 to 100", in_quotes(text));
      out.strength = value;
      out.path.resize(colon);
    }
  }
  require(!out.path.empty(), "`loras`: expected FILE[:strength][@high|@low|@both], got {}", in_quotes(text));
  return out;
}

const std::string& RequestAdapters::key(Part part) const {
  static const std::string none;
  switch (part) {
    case Part::transformer:
      return keys[0];
    case Part::transformer_2:
      return keys[1];
    case Part::text:
      return keys[2];
    default:
      return none;
  }
}

ModelNames::ModelNames(const ModelBundle& model) {
  if (model.text_encoder) text_.emplace(*model.text_encoder, umt5_to_original);
  for (int i = 0; i < model.experts(); ++i)
    transformers_.push_back(std::make_unique<TargetNames>(*model.transformer_of(i), dit_to_original));
}

AdapterTargets ModelNames::targets(AdapterExpert expert) const {
  AdapterTargets out{.transformers = {}, .text_encoder = text_ ? &*text_ : nullptr, .expert = expert};
  for (size_t i = 0; i < transformers_.size(); ++i)
    out.transformers.push_back({ModelBundle::transformer_name(static_cast<int>(i)), transformers_[i].get()});
  return out;
}

std::shared_ptr<const RequestAdapters> open_adapters(const ModelBundle& model, const VideoRequest& request,
                                                     bool keep_loaded) {
  if (request.loras.empty()) return nullptr;
  return Opener(model, request, keep_loaded).run();
}

}  // namespace tachy
