// The parts of a graph that import_graph reads, each by itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workflows/import_graph.h"

namespace tachy::workflows {

// All of them read from this and write into it.
struct Work {
  const Values& values;
  const FindFile& find;
  Imported& out;

  void note(const Node& node, const std::string& input, const std::string& text) {
    out.notes.push_back("node " + node.id + " " + node.type + ", " + input + ": " + text);
  }
  VideoRequest& request() { return out.settings.request; }
  std::string file(const Node& node, const std::string& input, FileKind kind) {
    return find(node, input, values.text(node, input), kind);
  }
};

// The chain of a model: its file, adapters in the order in which they are applied, and its shift.
struct ModelChain {
  const Node* loader = nullptr;
  std::string path;
  std::vector<std::string> loras;  // "FILE:strength"
  double shift = 0;
};
ModelChain read_model(Work& work, const Node& sampler);

// Reads the text that an output of conditioning stands for, and its encoder's file, into the settings.
std::string read_prompt(Work& work, const Output& from, std::string& encoder);

// Reads a VAE's file.
std::string read_vae(Work& work, const Node& node);

// Returns the node that loads the picture at an input; null if there is none.
const Node* picture_at(Work& work, const Node& node, const std::string& input);

// Reads the control, the mask and the reference of a WanVaceToVideo. `trim`, the node that cuts latents off after the
// sampler, or null, must cut off what the node of the latents says.
void read_vace(Work& work, const Node& node);
void check_trim(const Work& work, const Node* trim, const Node& latents);

// Reads size, frames and pictures from the node that makes the latents. The prompts of `sampler` must pass through it
// where it has pictures; returns where they come from.
struct Prompts {
  Output positive, negative;
};
Prompts read_latents(Work& work, const Node& sampler, const Output& latents);

}  // namespace tachy::workflows
