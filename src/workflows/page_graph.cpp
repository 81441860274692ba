#include "workflows/page_graph.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "workflows/canvas.h"
#include "workflows/widgets.h"

namespace tachy::workflows {
namespace {

using nlohmann::json;

constexpr int kMostTurns = 1000;              // along one connection
constexpr int64_t kMostFollowed = 5'000'000;  // along all of them

// Where a connection begins: at an output, at a value, at a node that is left out, or nowhere.
struct Nothing {};
struct LeftOut {};
using Origin = std::variant<Nothing, LeftOut, Link, Value>;

bool fits(const std::string& a, const std::string& b) {
  return a == b || a.empty() || b.empty() || a == "*" || b == "*";
}

// Says whether the page keeps a node to itself.
bool is_note(const std::string& type) { return type == "Note" || type == "MarkdownNote"; }
bool is_virtual(const std::string& type) {
  return is_note(type) || type == "Reroute" || type == "PrimitiveNode";
}

const json* named(const json& list, const std::string& name) {
  for (const json& entry : list)
    if (text_in(entry, "name") == name) return &entry;
  return nullptr;
}

bool has_widget(const json& input) { return input.is_object() && input.contains("widget"); }

class Walk {
 public:
  explicit Walk(const std::string& from) : from_(from) {}

  Origin of_input(const Placed& node, const json& input, const std::string& type, int turns = 0) {
    count(turns);
    if (!input.is_object() || !input.contains("link") || input["link"].is_null()) return Nothing{};
    const auto wire = node.level->wires.find(id_of(input["link"]));
    check(wire != node.level->wires.end(), ErrorCode::corrupt, "{}: node {} {}, {}: there is no link {}",
          from_, node.id, node.type, text_in(input, "name"), input["link"].dump());
    return of_wire(*node.level, wire->second, type, turns);
  }

 private:
  Origin of_wire(const Level& level, const Wire& wire, const std::string& type, int turns) {
    if (level.parent && wire.origin == kInputEnd) return of_instance(level, wire.origin_slot, type, turns);
    const auto node = level.nodes.find(wire.origin);
    check(node != level.nodes.end(), ErrorCode::corrupt, "{}: a link begins at a node {} that is not there",
          from_, wire.origin);
    return of_output(node->second, wire.origin_slot, type, turns + 1);
  }

  // Follows an input of a subgraph to what its instance is given. The file names inputs of the instance that have a
  // link; the values of widgets lie in the order of the subgraph's inputs that reach widgets.
  Origin of_instance(const Level& level, int64_t slot, const std::string& type, int turns) {
    const json& inputs = list_in(*level.definition, "inputs");
    check(static_cast<size_t>(slot) < inputs.size(), ErrorCode::corrupt, "{}: subgraph {} has no input {}",
          from_, level.instance->id, slot);
    const json* outer =
        named(list_in(*level.instance->node, "inputs"), text_in(inputs[static_cast<size_t>(slot)], "name"));
    if (outer) {
      const Origin origin = of_input(*level.instance, *outer, type, turns + 1);
      if (!std::holds_alternative<Nothing>(origin)) return origin;
    }
    size_t index = 0;
    for (int64_t i = 0; i < slot; ++i) index += reaches_widget(level, i);
    const json& values = list_in(*level.instance->node, "widgets_values");
    if (reaches_widget(level, slot) && index < values.size()) return value_of_json(values[index]);
    return Nothing{};
  }

  bool reaches_widget(const Level& level, int64_t slot) {
    spend(level.wires.size());
    for (const auto& [id, wire] : level.wires) {
      if (wire.origin != kInputEnd || wire.origin_slot != slot) continue;
      const auto node = level.nodes.find(wire.target);
      if (node == level.nodes.end()) continue;
      for (const json& input : list_in(*node->second.node, "inputs"))
        if (input.is_object() && input.contains("link") && id_of(input["link"]) == id && has_widget(input))
          return true;
    }
    return false;
  }

  Origin of_output(const Placed& node, int64_t slot, const std::string& type, int turns) {
    count(turns);
    const json& inputs = list_in(*node.node, "inputs");
    spend(inputs.size());
    if (node.mode == kMuted || is_note(node.type)) return LeftOut{};
    if (node.mode == kBypassed) {
      const json* input = handed_on(node, slot, type);
      return input ? of_input(node, *input, text_in(*input, "type"), turns + 1) : Origin(Nothing{});
    }
    if (node.inside) {
      spend(node.inside->wires.size());
      for (const auto& [id, wire] : node.inside->wires)
        if (wire.target == kOutputEnd && wire.target_slot == slot)
          return of_wire(*node.inside, wire, type, turns + 1);
      return Nothing{};
    }
    if (node.type == "Reroute")
      return inputs.empty() ? Origin(Nothing{}) : of_input(node, inputs[0], type, turns + 1);
    if (node.type == "PrimitiveNode") {
      const json& values = list_in(*node.node, "widgets_values");
      return values.empty() ? Origin(Nothing{}) : Origin(value_of_json(values[0]));
    }
    return Link{node.id, slot};
  }

  // Returns the input that a bypassed node hands on in place of its output: that of the same place if it fits, then
  // the first of the same type, then the first that fits.
  static const json* handed_on(const Placed& node, int64_t slot, const std::string& type) {
    const json &inputs = list_in(*node.node, "inputs"), &outputs = list_in(*node.node, "outputs");
    const auto at = static_cast<size_t>(slot);
    const std::string given = at < outputs.size() ? text_in(outputs[at], "type") : "";
    const auto would = [&](const json& input) {
      return fits(text_in(input, "type"), given) && fits(text_in(input, "type"), type);
    };
    if (type == "*" || type.empty()) return inputs.empty() ? nullptr : &inputs[at < inputs.size() ? at : 0];
    if (at < inputs.size() && would(inputs[at])) return &inputs[at];
    for (const json& input : inputs)
      if (text_in(input, "type") == type) return &input;
    for (const json& input : inputs)
      if (would(input)) return &input;
    return nullptr;
  }

  void count(int turns) {
    check(turns <= kMostTurns, ErrorCode::corrupt, "{}: a connection of the graph goes round in a circle",
          from_);
    spend(1);
  }
  void spend(size_t steps) {
    steps_ += static_cast<int64_t>(steps);
    check(steps_ <= kMostFollowed, ErrorCode::unsupported, "{}: its connections are too many to follow",
          from_);
  }

  std::string from_;
  int64_t steps_ = 0;
};

// Puts the values of a node's widgets under their names. Files from before the page stored what follows a seed have
// fewer values.
void take_widgets(const json& stored, Node& node) {
  if (stored.is_object()) {
    for (const auto& [name, value] : stored.items()) node.values[name] = value_of_json(value);
    return;
  }
  const auto names = widgets_of(node.type);
  const auto extra = [](std::string_view name) { return name == kSeedControl || name == kUploadButton; };
  const auto extras = static_cast<size_t>(std::ranges::count_if(names, extra));
  const bool without = stored.size() + extras <= names.size();
  size_t at = 0;
  for (const std::string_view name : names) {
    if (without && extra(name)) continue;
    if (at == stored.size()) return;
    if (!extra(name)) node.values[std::string(name)] = value_of_json(stored[at]);
    ++at;
  }
}

Node read_node(Walk& walk, const Placed& placed) {
  Node node{placed.id, placed.type, {}, {}, true};
  const auto stored = placed.node->find("widgets_values");
  if (stored != placed.node->end() && (stored->is_array() || stored->is_object()))
    take_widgets(*stored, node);
  for (const json& input : list_in(*placed.node, "inputs")) {
    const std::string name = text_in(input, "name");
    const Origin origin = walk.of_input(placed, input, text_in(input, "type"));
    if (const auto* link = std::get_if<Link>(&origin))
      node.values.erase(name), node.links[name] = *link;
    else if (const auto* value = std::get_if<Value>(&origin))
      node.values[name] = *value;
    else if (std::holds_alternative<LeftOut>(origin))
      node.values.erase(name);
  }
  return node;
}

}  // namespace

Graph page_graph(const json& file, const std::string& from) {
  check(file.contains("nodes") && file["nodes"].is_array(), ErrorCode::corrupt, "{}: its 'nodes' are no list",
        from);
  const std::deque<Level> levels = levels_of(file, from);
  Walk walk(from);
  Graph graph;
  for (const Level& level : levels)
    for (const auto& [id, placed] : level.nodes)
      if (!is_virtual(placed.type) && !placed.inside && placed.mode != kMuted && placed.mode != kBypassed)
        graph[placed.id] = read_node(walk, placed);
  for (auto& [id, node] : graph)
    std::erase_if(node.links, [&](auto& item) { return !graph.contains(item.second.node); });
  return graph;
}

}  // namespace tachy::workflows
