// From a graph of ComfyUI to the settings of a job.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "jobs/settings.h"
#include "workflows/node_values.h"

namespace tachy::workflows {

// Where ComfyUI looks for a file.
enum class FileKind { diffusion_model, text_encoder, vae, clip_vision, lora, picture, video };

// Returns the path of a file that an input of a node names.
using FindFile = std::function<std::string(const Node& node, const std::string& input,
                                           const std::string& name, FileKind kind)>;

struct Imported {
  jobs::RunSettings settings;      // the inputs' hashes are left to jobs::load_inputs
  std::vector<std::string> notes;  // how the video will differ from ComfyUI's, each about one node
};

// Reads the graph of a Wan video from its end: a node that saves, the VAE, one or two samplers, the models. Throws
// unsupported, naming the node and the input, for anything that a job cannot say, and what `find` throws.
Imported import_graph(const Graph& graph, const FindFile& find);

}  // namespace tachy::workflows
