#include "workflows/graph.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "workflows/page_graph.h"

namespace tachy::workflows {
namespace {

using nlohmann::json;

constexpr size_t kShownBytes = 80;

// Says whether an input's value is [id, slot]; a list that is a value stands in an object under "__value__".
bool is_link(const json& value) {
  return value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_number_integer();
}

Node api_node(const std::string& id, const json& j, const std::string& from) {
  check(j.is_object() && j.contains("class_type") && j["class_type"].is_string(), ErrorCode::corrupt,
        "{}: node {} has no 'class_type'", from, id);
  Node node{id, j["class_type"].get<std::string>(), {}, {}};
  const auto inputs = j.find("inputs");
  if (inputs == j.end()) return node;
  check(inputs->is_object(), ErrorCode::corrupt, "{}: the 'inputs' of node {} are no object", from, id);
  for (const auto& [name, value] : inputs->items()) {
    if (is_link(value)) {
      const int64_t slot = value[1].get<int64_t>();
      check(slot >= 0, ErrorCode::corrupt, "{}: node {}, {}: expected an output's number, got {}", from, id,
            name, slot);
      node.links[name] = {value[0].get<std::string>(), slot};
    } else {
      node.values[name] = value_of_json(value);
    }
  }
  return node;
}

Graph api_graph(const json& file, const std::string& from) {
  check(file.size() <= kMostNodes, ErrorCode::unsupported, "{}: it has {} nodes, and at most {} are read",
        from, file.size(), kMostNodes);
  Graph graph;
  for (const auto& [id, node] : file.items()) graph[id] = api_node(id, node, from);
  for (const auto& [id, node] : graph)
    for (const auto& [name, link] : node.links)
      check(graph.contains(link.node), ErrorCode::corrupt, "{}: node {} {}, {}: there is no node {}", from,
            id, node.type, name, link.node);
  return graph;
}

bool is_api(const json& file) {
  return file.is_object() && !file.empty() && file.begin()->is_object() &&
         file.begin()->contains("class_type");
}

}  // namespace

Value value_of_json(const json& value) {
  Value out;
  out.shown = json_line(value);
  if (out.shown.size() > kShownBytes) {
    size_t end = kShownBytes;
    while (end > 0 && (static_cast<unsigned char>(out.shown[end]) & 0xc0) == 0x80) --end;  // whole characters
    out.shown = out.shown.substr(0, end) + "…";
  }
  if (value.is_boolean())
    out.is = value.get<bool>();
  else if (value.is_number_unsigned())
    out.is = value.get<uint64_t>();
  else if (value.is_number_integer())
    out.is = value.get<int64_t>();
  else if (value.is_number_float())
    out.is = value.get<double>();
  else if (value.is_string())
    out.is = value.get<std::string>();
  return out;
}

Graph graph_of_json(const json& file, const std::string& from) {
  if (is_api(file)) return api_graph(file, from);
  if (file.is_object() && file.contains("nodes")) return page_graph(file, from);
  // A request to ComfyUI's server has the graph under "prompt".
  if (file.is_object() && file.contains("prompt") && is_api(file["prompt"]))
    return api_graph(file["prompt"], from);
  fail(ErrorCode::corrupt,
       "{}: no graph of ComfyUI: expected its API format (nodes with 'class_type') or its page's ('nodes')",
       from);
}

}  // namespace tachy::workflows
