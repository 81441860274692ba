// A prompt as ComfyUI's text encoders read it.
#pragma once

#include <string>

#include "workflows/graph.h"

namespace tachy::workflows {

// Returns the text of a node's input without what escapes brackets. ComfyUI (comfy/sd1_clip.py) gives text in
// parentheses another weight and puts embeddings in; its page (processDynamicPrompt) leaves comments out and draws one of
// {a|b}. No job can say either, so such prompts are refused.
std::string plain_prompt(const Node& node, const std::string& input, const std::string& text);

}  // namespace tachy::workflows
