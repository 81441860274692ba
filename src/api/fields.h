// Front ends are made of these: the tables of a request's fields (request/request_fields.h) and of an
// engine's, here. The command line is one, and shows how.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "api/tachyscope.h"
#include "base/field.h"
#include "request/request_fields.h"

namespace tachy {

struct EngineField {
  using Member = std::variant<int EngineOptions::*, uint64_t EngineOptions::*, bool EngineOptions::*,
                              std::string EngineOptions::*>;

  const char* name;  // of the member, and in messages
  Member member;
  const char* help;
  Allowed allowed = {};
};

const std::vector<EngineField>& engine_fields();

// The fields among them that say where a part of the model lies.
struct ModelPart {
  const char* name;  // of all three: the member, the path, and the key in a run's settings
  std::string EngineOptions::*option;
  std::filesystem::path PartPaths::*path;
};
std::span<const ModelPart> model_parts();

// Throws invalid_argument for the first value that its field may not hold.
void check_fields(const EngineOptions& options);
// Throws invalid_argument where a GPU is asked for by name and several ranks, which only the CPU has.
void check_ranks(const EngineOptions& options);

}  // namespace tachy
