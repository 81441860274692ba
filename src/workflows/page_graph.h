// A file of ComfyUI's page (UI format) as the graph that the page sends to the server.
//
// The rules are those of comfyui-frontend-package 1.27.10, which ComfyUI 0.3.64 asks for: a bypassed node (mode 4) hands
// on the input whose type fits, a muted one (mode 2) and what hangs on it are left out, notes are ignored, reroutes and
// subgraphs disappear, and a primitive's value takes the place of the widget's.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "workflows/graph.h"

namespace tachy::workflows {

// Throws corrupt for another file, unsupported for subgraphs that are too deep or too many, and for prompts
// that the page would change at random.
Graph page_graph(const nlohmann::json& file, const std::string& from);

}  // namespace tachy::workflows
