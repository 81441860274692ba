// `tachyscope import` reads a graph of ComfyUI and writes it as a job that `generate --from` takes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text_file.h"
#include "commands.h"
#include "media/files.h"
#include "say.h"
#include "workflows/graph.h"
#include "workflows/import_graph.h"
#include "workflows/model_files.h"

namespace tachy::cli {
namespace {

constexpr uint64_t kMostGraphBytes = uint64_t{32} << 20;

struct ImportOptions {
  std::string graph, models = ".", input, output;
};

int run_import(const ImportOptions& o) {
  namespace fs = std::filesystem;
  const fs::path models(o.models), output(o.output);
  std::error_code ec;
  check(output.parent_path().empty() || fs::is_directory(output.parent_path(), ec), ErrorCode::io,
        "`output`: there is no folder for {}", o.output);
  check(fs::is_directory(models, ec), ErrorCode::not_found, "`models`: {} is no folder", o.models);
  check(o.input.empty() || fs::is_directory(o.input, ec), ErrorCode::not_found, "`pictures`: {} is no folder",
        o.input);
  // ComfyUI's input/ lies beside its models/.
  const fs::path pictures = o.input.empty() ? models.lexically_normal() / ".." / "input" : fs::path(o.input);
  const std::string text = read_text_file(o.graph, kMostGraphBytes);
  const workflows::Graph graph = workflows::graph_of_json(parse_json_text(text, o.graph), o.graph);
  workflows::Imported imported =
      workflows::import_graph(graph, workflows::files_in(models, pictures.lexically_normal()));
  jobs::load_inputs(imported.settings);
  nlohmann::json job = jobs::to_json(imported.settings);
  jobs::add_encoding(job, imported.settings.encoding);
  for (const std::string& note : imported.notes) say(stderr, fmt::format("note: {}\n", note));
  if (o.output.empty() || o.output == "-")
    fmt::print("{}\n", json_text(job, 2));
  else
    write_whole(o.output, json_text(job, 2) + "\n");
  return 0;
}

}  // namespace

Command add_import(CommandLine& line) {
  CommandOptions sub =
      line.add_command("import", "write a graph of ComfyUI as a job that generate --from takes");
  auto o = std::make_shared<ImportOptions>();
  sub.add_option("graph", o->graph, "ComfyUI's graph as JSON, in its API format or as its page saves it")
      ->required();
  sub.add_option("--models", o->models,
                 "ComfyUI's folder of models, or one with all of the files (default: here)");
  sub.add_option("--input", o->input, "folder of pictures (default: input beside the folder of models)");
  sub.add_option("-o,--output", o->output, "the job's file, such as job.json (default: printed)");
  sub.footer(
      "Standard graphs of Wan are read: docs/comfyui.md lists the nodes. Anything else is refused with exit\n"
      "code 5 and the node's number, a missing file with 3. Lines that begin with note say how the video\n"
      "will differ from ComfyUI's.");
  return [o] { return run_import(*o); };
}

}  // namespace tachy::cli
