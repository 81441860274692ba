#include "workflows/canvas.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "workflows/graph.h"

namespace tachy::workflows {

using nlohmann::json;

namespace {

constexpr int kMostLevels = 16;  // one subgraph inside another
constexpr size_t kMostIdBytes = 64;

int64_t whole_of(const json& value, int64_t otherwise) {
  return value.is_number_integer() ? value.get<int64_t>() : otherwise;
}

// A link is a list [id, origin, slot, target, slot, type], and in subgraphs an object.
std::map<std::string, Wire> wires_of(const json& definition, const std::string& from) {
  std::map<std::string, Wire> out;
  for (const json& link : list_in(definition, "links")) {
    std::string id;
    Wire wire;
    if (link.is_array() && link.size() >= 5) {
      id = id_of(link[0]);
      wire = {id_of(link[1]), id_of(link[3]), whole_of(link[2], -1), whole_of(link[4], -1)};
    } else if (link.is_object()) {
      const auto at = [&](const char* key) { return link.contains(key) ? id_of(link[key]) : ""; };
      id = at("id");
      wire = {at("origin_id"), at("target_id"), whole_in(link, "origin_slot", -1),
              whole_in(link, "target_slot", -1)};
    } else if (link.is_null()) {
      continue;  // the page leaves gaps
    }
    check(!id.empty() && !wire.origin.empty() && !wire.target.empty() && wire.origin_slot >= 0,
          ErrorCode::corrupt, "{}: a link is not [id, node, slot, node, slot, type]", from);
    out[id] = wire;
  }
  return out;
}

class Builder {
 public:
  Builder(const json& file, const std::string& from) : from_(from) {
    const auto definitions = file.find("definitions");
    if (definitions != file.end() && definitions->is_object())
      for (const json& subgraph : list_in(*definitions, "subgraphs"))
        if (const std::string id = text_in(subgraph, "id"); !id.empty()) subgraphs_[id] = &subgraph;
    add(file, nullptr, nullptr, 1);
  }
  std::deque<Level> take() { return std::move(levels_); }

 private:
  const Level* add(const json& definition, const Level* parent, const Placed* instance, int depth) {
    check(depth <= kMostLevels, ErrorCode::unsupported, "{}: subgraphs lie in one another more than {} deep",
          from_, kMostLevels);
    Level& level = levels_.emplace_back();
    level.definition = &definition, level.parent = parent, level.instance = instance;
    level.wires = wires_of(definition, from_);
    for (const json& node : list_in(definition, "nodes")) {
      check(++count_ <= kMostNodes, ErrorCode::unsupported, "{}: it has more than {} nodes", from_,
            kMostNodes);
      const std::string id = node.is_object() && node.contains("id") ? id_of(node["id"]) : "";
      check(!id.empty() && !text_in(node, "type").empty(), ErrorCode::corrupt,
            "{}: a node has no id or no type", from_);
      Placed& placed = level.nodes[id];
      placed = {&node,
                instance ? instance->id + ":" + id : id,
                text_in(node, "type"),
                whole_in(node, "mode", 0),
                &level,
                nullptr};
    }
    for (auto& [id, placed] : level.nodes) {
      const auto subgraph = subgraphs_.find(placed.type);
      if (subgraph != subgraphs_.end() && placed.mode != kMuted && placed.mode != kBypassed)
        placed.inside = add(*subgraph->second, &level, &placed, depth + 1);
    }
    return &level;
  }

  std::string from_;
  std::map<std::string, const json*> subgraphs_;
  std::deque<Level> levels_;  // whose addresses stay
  size_t count_ = 0;
};

}  // namespace

std::string id_of(const json& id) {
  if (id.is_number_integer()) return id.dump();
  if (!id.is_string() || id.get_ref<const std::string&>().size() > kMostIdBytes) return "";
  return id.get<std::string>();
}

const json& list_in(const json& object, const char* key) {
  static const json none = json::array();
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : none;
}

std::string text_in(const json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t whole_in(const json& object, const char* key, int64_t otherwise) {
  if (!object.is_object()) return otherwise;
  const auto found = object.find(key);
  return found == object.end() ? otherwise : whole_of(*found, otherwise);
}

std::deque<Level> levels_of(const json& file, const std::string& from) { return Builder(file, from).take(); }

}  // namespace tachy::workflows
