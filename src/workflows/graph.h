// A graph as ComfyUI's server gets it (its API format): nodes by their ids, and what each of their inputs is. A file
// of its page (UI format) becomes the same by the page's rules (page_graph.h).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

namespace tachy::workflows {

// Another node's output.
struct Link {
  std::string node;
  int64_t slot = 0;
};

struct Value {
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string> is;  // monostate: anything else
  std::string shown;  // as JSON, for messages; long ones are cut
};

struct Node {
  std::string id, type;  // an id is "12", or "3:7" in a subgraph
  std::map<std::string, Value> values;
  std::map<std::string, Link> links;
  bool from_page =
      false;  // the page would still have changed prompts on their way to the server (prompt_text.h)
};

using Graph = std::map<std::string, Node>;

// Graphs with more nodes than this are refused.
inline constexpr size_t kMostNodes = 20000;

Value value_of_json(const nlohmann::json& value);

// Reads either format; the JSON may hold anything. `from` says where it lay, for messages. Throws corrupt if it is
// no graph, unsupported if it has too many nodes.
Graph graph_of_json(const nlohmann::json& file, const std::string& from);

}  // namespace tachy::workflows
