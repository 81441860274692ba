// Fuzzes graphs of ComfyUI, in both formats, up to the job that they become. Every file that one names is there.
#include <nlohmann/json.hpp>

#include "../fuzz_input.h"
#include "base/json_text.h"
#include "workflows/import_graph.h"

using namespace tachy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::expect_error_or_result([&] {
    const nlohmann::json file = parse_json_text(fuzz::view(data, size), "graph.json");
    const workflows::Graph graph = workflows::graph_of_json(file, "graph.json");
    const workflows::Imported imported =
        workflows::import_graph(graph, [](const workflows::Node&, const std::string&, const std::string& name,
                                          workflows::FileKind) { return name; });
    (void)jobs::to_json(imported.settings).dump();
  });
  return 0;
}
