// Graphs of tests/fuzz/corpus/workflow, which tests change and import.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "workflows/import_graph.h"

namespace tachy::test {

using nlohmann::json;

inline json graph_file(const std::string& name) {
  return json::parse(std::ifstream(TACHY_SOURCE_DIR "/tests/fuzz/corpus/workflow/" + name));
}

// Every file is there, and its path is "KIND/NAME".
inline std::string found(const workflows::Node&, const std::string&, const std::string& name,
                         workflows::FileKind kind) {
  constexpr const char* kKinds[] = {"unet", "text", "vae", "clip", "lora", "picture", "video"};
  return std::string(kKinds[static_cast<int>(kind)]) + "/" + name;
}

inline workflows::Imported imported(const json& file) {
  return workflows::import_graph(workflows::graph_of_json(file, "g.json"), found);
}

struct Refused {
  ErrorCode code = ErrorCode::internal;
  std::string message = "accepted";
};
inline Refused refusal(const json& file) {
  try {
    imported(file);
  } catch (const Error& e) {
    return {e.code(), e.message()};
  }
  return {};
}

}  // namespace tachy::test
