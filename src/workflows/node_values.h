// Reads a node's inputs, and refuses everything that a job cannot express.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "workflows/graph.h"

namespace tachy::workflows {

// Throws unsupported: "node 12 KSamplerAdvanced, cfg: WHY".
[[noreturn]] void refuse(const Node& node, std::string_view input, const std::string& why);

// An output of a node of the graph.
struct Output {
  const Node* node = nullptr;
  int64_t slot = 0;
  bool operator==(const Output&) const = default;
};

class Values {
 public:
  explicit Values(const Graph& graph) : graph_(graph) {}
  const Graph& graph() const { return graph_; }

  // Returns what is connected with an input; nothing if nothing is.
  std::optional<Output> linked(const Node& node, const std::string& input) const;
  // Throws if nothing is, or if it is not such an output.
  Output needed(const Node& node, const std::string& input) const;
  Output needed(const Node& node, const std::string& input, std::string_view type, int64_t slot = 0) const;

  // Values may also come from a node of a constant (PrimitiveInt …). Each throws for a value that is missing, of
  // another type or outside its range, which is given with both ends.
  std::string text(const Node& node, const std::string& input) const;
  bool has(const Node& node, const std::string& input) const;
  int64_t whole(const Node& node, const std::string& input, int64_t least, int64_t most) const;
  uint64_t seed(const Node& node, const std::string& input) const;
  double number(const Node& node, const std::string& input, double least, double most) const;
  // Throws if the value is not one of these.
  std::string one_of(const Node& node, const std::string& input,
                     std::initializer_list<std::string_view> names) const;

 private:
  const Value& value(const Node& node, const std::string& input) const;
  const Graph& graph_;
};

}  // namespace tachy::workflows
