// The tables of an engine's fields, from which front ends are made; request/request_fields.h has those of a
// request's fields. The command line is one such front end and shows how it is done.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "api/tachyscope.h"
#include "base/field.h"
#include "request/parallel.h"
#include "request/request_fields.h"

namespace tachy {

struct EngineField {
  using Member = std::variant<int EngineOptions::*, uint64_t EngineOptions::*, bool EngineOptions::*,
                              std::string EngineOptions::*>;

  const char* name;  // the member's name, also in messages
  Member member;
  const char* help;
  Allowed allowed = {};
};

const std::vector<EngineField>& engine_fields();

// A field that says where a part of the model lies.
struct ModelPart {
  const char* name;  // names the member, the path, and the key in a run's settings
  std::string EngineOptions::*option;
  std::filesystem::path PartPaths::*path;
};
std::span<const ModelPart> model_parts();

// Throws invalid_argument for the first field whose value is not allowed.
void check_fields(const EngineOptions& options);
// Throws invalid_argument if a GPU is named and several ranks are asked for, since only the CPU has ranks, and if
// `parallel` cannot be read or is for another number of ranks.
void check_ranks(const EngineOptions& options);
// Reads how ranks, processes or GPUs share a pass. Throws invalid_argument if that is for another number of
// them. `gpus` is how many there are, which is found where they are opened; 0: any number.
Parallel parallel_of(const EngineOptions& options, int gpus = 0);

}  // namespace tachy
