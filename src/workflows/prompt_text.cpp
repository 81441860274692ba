#include "workflows/prompt_text.h"

#include "workflows/node_values.h"

namespace tachy::workflows {
namespace {

// Removes the backslash in front of these characters.
std::string unescaped(const std::string& text, std::string_view characters) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '\\' && i + 1 < text.size() && characters.find(text[i + 1]) != characters.npos;
    if (escape) ++i;
    out += text[i];
  }
  return out;
}

bool has_bare(const std::string& text, std::string_view characters) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (characters.find(text[i]) != characters.npos)
      return true;
  }
  return false;
}

}  // namespace

std::string plain_prompt(const Node& node, const std::string& input, const std::string& text) {
  std::string out = text;
  if (node.from_page) {
    if (out.find("//") != out.npos || out.find("/*") != out.npos)
      refuse(node, input,
             "the page takes what follows // and what is in /* */ for comments; remove them from the prompt");
    if (has_bare(out, "{"))
      refuse(node, input, "the page draws one of the texts in { } at random; write the one that is meant");
    out = unescaped(out, "{}|");
  }
  if (has_bare(out, "()"))
    refuse(node, input,
           "text in parentheses gets another weight in ComfyUI; write \\( and \\) for plain ones");
  if (out.find("embedding:") != out.npos) refuse(node, input, "embeddings in prompts are not read");
  return unescaped(out, "()");
}

}  // namespace tachy::workflows
