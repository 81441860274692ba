// A key is put into PEFT's expression unchanged and the whole is matched, so groups, alternatives and anchors
// mean the same as in PEFT.
#include "adapters/peft_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"
#include "text/regex.h"
#include "text/utf8.h"
#include "weights/json_file.h"
#include "weights/names/wrapper_names.h"
#include "weights/quote.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostPatterns = 4096;
constexpr size_t kMostMatches = 2u << 20;  // patterns times layers, for one file
constexpr double kMostAlpha = 1e6, kMostRank = 1 << 20, kDefault = 8;
// A usual match backtracks a few dozen times. These limits bound the work for one file to about two seconds.
constexpr unsigned long kUsualRetries = 500, kMostRetries = 100'000;
constexpr int kMostSlowMatches = 200;
// The prefixes of a model's parts in diffusers' names. A longer prefix comes before a shorter one that it
// begins with.
constexpr const char* kParts[] = {"transformer_2.", "transformer.", "text_encoder.", ""};

// The keys of pattern objects in the file's order. If a key occurs twice, Python keeps its first place.
using KeyOrder = std::map<std::string, std::vector<std::string>, std::less<>>;

struct Document {
  json values;
  KeyOrder order;  // by the key of the outermost object
  std::string where;
};

class Keys {
 public:
  explicit Keys(KeyOrder& order) : order_(order) {}
  void operator()(int depth, const std::string& key) {
    if (depth == 1) top_ = key;
    if (depth != 2 || !top_.ends_with("_pattern")) return;
    if (seen_.emplace(top_, key).second) order_[top_].push_back(key);
  }

 private:
  KeyOrder& order_;
  std::string top_;
  std::set<std::pair<std::string, std::string>> seen_;
};

class Patterns {
 public:
  Patterns(const Document& document, const std::string& field, double lo, double hi)
      : where_(document.where) {
    field_ = field;
    if (!document.values.contains(field) || document.values[field].is_null()) return;
    const json& all = document.values[field];
    check(all.is_object() && all.size() <= kMostPatterns, ErrorCode::corrupt,
          "{}: '{}': expected an object of at most {} numbers", where_, field, kMostPatterns);
    const auto order = document.order.find(field);
    if (order == document.order.end()) return;
    for (const std::string& key : order->second) {
      const json& value = all[key];
      const double number = value.is_number() ? value.get<double>() : lo - 1;
      check(number >= lo && number <= hi, ErrorCode::corrupt,
            "{}: '{}': expected numbers from {} to {}, got {} for {}", where_, field, lo, hi,
            in_quotes(json_line(value), 60), in_quotes(key));
      patterns_.push_back(
          {key,
           text::Regex::python(fmt::format("(.*\\.)?({})$", key), fmt::format("{}: '{}'", where_, field)),
           number});
    }
  }

  size_t size() const { return patterns_.size(); }

  // Returns the value for a layer of this name.
  std::optional<double> value(const std::string& name) {
    for (Pattern& p : patterns_)
      if (matches(p, name)) return p.value;
    // If no pattern fits, PEFT looks up the name itself.
    const auto same = std::ranges::find(patterns_, name, &Pattern::key);
    return same == patterns_.end() ? std::nullopt : std::optional(same->value);
  }

  // Warns of patterns that fit none of the layers.
  void warn_of_unused(std::span<const std::string> names) {
    for (Pattern& p : patterns_)
      if (!p.used && std::ranges::none_of(names, [&](const std::string& name) { return matches(p, name); }))
        warn("{}: '{}': the pattern {} fits no layer of the file", where_, field_, in_quotes(p.key));
  }

 private:
  struct Pattern {
    std::string key;
    text::Regex regex;
    double value;
    bool used = false;
  };

  bool matches(Pattern& p, const std::string& name) {
    if (text::find_invalid_utf8(name) != text::kValid) return false;
    auto found = p.regex.matches_start(name, kUsualRetries);
    if (!found && ++slow_ <= kMostSlowMatches) found = p.regex.matches_start(name, kMostRetries);
    check(found.has_value(), ErrorCode::unsupported,
          "{}: '{}': matching the pattern {} takes too long on the layer {}", where_, field_,
          in_quotes(p.key), in_quotes(name));
    p.used = p.used || *found;
    return *found;
  }

  std::string where_, field_;
  std::vector<Pattern> patterns_;
  int slow_ = 0;
};

// Refuses settings by which the pair belongs to a model that PEFT changed before, or is not simply B·A.
void refuse_changed_model(const Document& document, const std::string& part) {
  const std::string field = part + "init_lora_weights";
  const json none, &values = document.values;
  const auto value_of = [&](const std::string& key) -> const json& {
    const auto found = values.find(key);
    return found == values.end() ? none : *found;
  };
  const std::string start = value_of(field).is_string() ? value_of(field).get<std::string>() : "";
  for (const std::string_view changing : {"pissa", "olora", "corda", "loftq", "lora_ga"})
    check(!start.starts_with(changing), ErrorCode::unsupported,
          "{}: '{}' is {}: the pair belongs to weights that PEFT changes first, which is not supported; PEFT "
          "can save it as a plain LoRA (path_initial_model_for_weight_conversion)",
          document.where, field, in_quotes(start, 60));
  for (const char* meaning :
       {"layer_replication", "use_qalora", "use_bdlora", "alora_invocation_tokens", "kasa_config"}) {
    const json& value = value_of(part + meaning);
    check(value.is_null() || value == json(false), ErrorCode::unsupported,
          "{}: '{}' is set, which is not supported", document.where, part + meaning);
  }
}

// The configuration for one part of the model.
class Config {
 public:
  Config(const Document& document, const std::string& part, const std::string& from)
      : part_(part),
        alphas_(document, part + "alpha_pattern", -kMostAlpha, kMostAlpha),
        ranks_(document, part + "rank_pattern", 1, kMostRank) {
    refuse_changed_model(document, part);
    otherwise_.from = from;
    otherwise_.rslora = json_bool(document.values, part + "use_rslora", false);
    otherwise_.rank = json_double(document.values, part + "r", kDefault, 1, kMostRank);
    const double alpha = json_double(document.values, part + "alpha", kDefault, -kMostAlpha, kMostAlpha);
    otherwise_.alpha = json_double(document.values, part + "lora_alpha", alpha, -kMostAlpha, kMostAlpha);
  }

  static bool is_in(const Document& document, const std::string& part) {
    return std::ranges::any_of(
        std::initializer_list<const char*>{"peft_type", "r", "lora_alpha", "alpha", "alpha_pattern",
                                           "rank_pattern", "use_rslora", "target_modules"},
        [&](const char* field) { return document.values.contains(part + field); });
  }

  size_t patterns() const { return alphas_.size() + ranks_.size(); }
  // Returns the name that PEFT matches, without the prefixes of PEFT and diffusers.
  std::optional<std::string> own_name(std::string_view layer) const {
    if (!layer.starts_with(part_)) return std::nullopt;
    layer.remove_prefix(part_.size());
    constexpr std::string_view kPeft = "base_model.model.";
    if (part_.empty() && layer.starts_with(kPeft)) layer.remove_prefix(kPeft.size());
    return without_wrappers(layer);
  }

  PeftScale scale(const std::string& name) {
    PeftScale out = otherwise_;
    out.alpha = alphas_.value(name).value_or(out.alpha);
    out.rank = ranks_.value(name).value_or(out.rank);
    return out;
  }
  void warn_of_unused(std::span<const std::string> names) {
    alphas_.warn_of_unused(names), ranks_.warn_of_unused(names);
  }

 private:
  std::string part_;
  PeftScale otherwise_;
  Patterns alphas_, ranks_;
};

void take(const Document& document, const std::string& from, std::span<const std::string> layers,
          std::vector<std::optional<PeftScale>>& out) {
  for (const std::string part : kParts) {
    if (!Config::is_in(document, part)) continue;
    Config config(document, part, from);
    check(config.patterns() * layers.size() <= kMostMatches, ErrorCode::unsupported,
          "{}: {} patterns for {} layers are more than can be read", document.where, config.patterns(),
          layers.size());
    std::vector<std::string> names;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (out[i]) continue;
      const auto name = config.own_name(layers[i]);
      if (!name) continue;
      names.push_back(*name);
      out[i] = config.scale(*name);
    }
    config.warn_of_unused(names);
  }
}

}  // namespace

std::vector<std::optional<PeftScale>> peft_scales(const fs::path& path, const TensorSource& source,
                                                  std::span<const std::string> layers) {
  constexpr const char* kHeader = "lora_adapter_metadata";
  std::vector<std::optional<PeftScale>> out(layers.size());
  if (const auto text = source.metadata().find(kHeader); text != source.metadata().end()) {
    Document document{.values = {}, .order = {}, .where = path.string() + ": " + kHeader};
    document.values = parse_json(text->second, document.where, Keys(document.order));
    take(document, kHeader, layers, out);
  }
  const fs::path beside = path.parent_path() / "adapter_config.json";
  std::error_code ignored;
  if (path.stem() == "adapter_model" && fs::is_regular_file(beside, ignored)) {
    Document document{.values = {}, .order = {}, .where = beside.string()};
    document.values = read_json(beside, kMaxJsonBytes, Keys(document.order));
    take(document, beside.filename().string(), layers, out);
  }
  return out;
}

}  // namespace tachy
