// The levels of a file of ComfyUI's page: the graph that is seen first, and one for each instance of a subgraph.
#pragma once

#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tachy::workflows {

// A link as the file has it; nodes by the text of their id.
struct Wire {
  std::string origin, target;
  int64_t origin_slot = 0, target_slot = 0;
};

struct Level;

struct Placed {
  const nlohmann::json* node = nullptr;
  std::string id;  // through all levels: "3:7"
  std::string type;
  int64_t mode = 0;
  const Level* level = nullptr;   // where it lies
  const Level* inside = nullptr;  // for an instance of a subgraph that is switched on
};

struct Level {
  const nlohmann::json* definition = nullptr;
  const Level* parent = nullptr;
  const Placed* instance = nullptr;     // in the parent
  std::map<std::string, Wire> wires;    // by the link's id
  std::map<std::string, Placed> nodes;  // by the id in this level
};

// The modes of a node that is left out, and of one that hands on what it gets.
inline constexpr int64_t kMuted = 2, kBypassed = 4;
// The ids of a subgraph's two ends.
inline constexpr const char* kInputEnd = "-10";
inline constexpr const char* kOutputEnd = "-20";

// The first level is the outermost one. They point into `file`, which must outlive them. Throws corrupt, or unsupported
// for too many nodes or levels.
std::deque<Level> levels_of(const nlohmann::json& file, const std::string& from);

// Members of JSON that may hold anything: an empty list or text, or `otherwise`, stands for what is missing or of
// another type.
const nlohmann::json& list_in(const nlohmann::json& object, const char* key);
std::string text_in(const nlohmann::json& object, const char* key);
int64_t whole_in(const nlohmann::json& object, const char* key, int64_t otherwise);
// Returns the text of an id, which is a number or a text; "" for anything else.
std::string id_of(const nlohmann::json& id);

}  // namespace tachy::workflows
