#include "workflows/node_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tachy::workflows {
namespace {

constexpr int kMostConstants = 16;  // one after the other
constexpr double kMostWhole = 1LL << 53;

bool is_constant(std::string_view type) {
  constexpr std::string_view kTypes[] = {"PrimitiveInt", "PrimitiveFloat", "PrimitiveString",
                                         "PrimitiveStringMultiline", "PrimitiveBoolean"};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

std::optional<double> number_in(const Value& value) {
  if (const auto* v = std::get_if<double>(&value.is)) return *v;
  if (const auto* v = std::get_if<int64_t>(&value.is)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<uint64_t>(&value.is)) return static_cast<double>(*v);
  return std::nullopt;
}

}  // namespace

void refuse(const Node& node, std::string_view input, const std::string& why) {
  fail(ErrorCode::unsupported, "node {} {}{}{}: {}", node.id, node.type, input.empty() ? "" : ", ", input,
       why);
}

std::optional<Output> Values::linked(const Node& node, const std::string& input) const {
  const auto link = node.links.find(input);
  if (link == node.links.end()) return std::nullopt;
  const auto other = graph_.find(link->second.node);
  if (other == graph_.end()) return std::nullopt;
  return Output{&other->second, link->second.slot};
}

Output Values::needed(const Node& node, const std::string& input) const {
  const auto out = linked(node, input);
  if (!out) refuse(node, input, "nothing is connected with it, or what is there is switched off");
  return *out;
}

Output Values::needed(const Node& node, const std::string& input, std::string_view type, int64_t slot) const {
  const Output out = needed(node, input);
  if (out.node->type != type || out.slot != slot)
    refuse(*out.node, "",
           fmt::format("it gives {} of node {} {}, where only {} is read", input, node.id, node.type, type));
  return out;
}

bool Values::has(const Node& node, const std::string& input) const {
  return node.values.contains(input) || node.links.contains(input);
}

const Value& Values::value(const Node& node, const std::string& input) const {
  const Node* at = &node;
  std::string name = input;
  for (int i = 0; i < kMostConstants; ++i) {
    const auto other = linked(*at, name);
    if (!other) {
      const auto found = at->values.find(name);
      if (found == at->values.end()) refuse(*at, name, "it has no value");
      return found->second;
    }
    if (!is_constant(other->node->type))
      refuse(*other->node, "",
             fmt::format("it computes {} of node {} {}; only constants are read", input, node.id, node.type));
    at = other->node, name = "value";
  }
  refuse(node, input, "constants go round in a circle");
}

std::string Values::text(const Node& node, const std::string& input) const {
  const Value& v = value(node, input);
  const auto* text = std::get_if<std::string>(&v.is);
  if (!text) refuse(node, input, fmt::format("expected a text, got {}", v.shown));
  return *text;
}

double Values::number(const Node& node, const std::string& input, double least, double most) const {
  const Value& v = value(node, input);
  const auto number = number_in(v);
  if (!number || !(*number >= least && *number <= most))
    refuse(node, input, fmt::format("expected a number from {} to {}, got {}", least, most, v.shown));
  return *number;
}

int64_t Values::whole(const Node& node, const std::string& input, int64_t least, int64_t most) const {
  const Value& v = value(node, input);
  const auto number = number_in(v);
  if (!number || std::floor(*number) != *number || std::fabs(*number) > kMostWhole ||
      static_cast<int64_t>(*number) < least || static_cast<int64_t>(*number) > most)
    refuse(node, input, fmt::format("expected a whole number from {} to {}, got {}", least, most, v.shown));
  return static_cast<int64_t>(*number);
}

uint64_t Values::seed(const Node& node, const std::string& input) const {
  const Value& v = value(node, input);
  if (const auto* large = std::get_if<uint64_t>(&v.is)) return *large;
  return static_cast<uint64_t>(whole(node, input, 0, static_cast<int64_t>(kMostWhole)));
}

std::string Values::one_of(const Node& node, const std::string& input,
                           std::initializer_list<std::string_view> names) const {
  const std::string text = this->text(node, input);
  if (std::ranges::find(names, text) == names.end())
    refuse(node, input, fmt::format("expected {}, got '{}'", fmt::join(names, " or "), text));
  return text;
}

}  // namespace tachy::workflows
