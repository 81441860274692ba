// The common beginning of both uses of `tachyscope world`, and the page (serve/page_server.h).

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/json_text.h"
#include "base/log.h"
#include "commands.h"
#include "field_options.h"
#include "generate_options.h"
#include "interrupt.h"
#include "say.h"
#include "serve/page_server.h"
#include "world_command.h"

namespace tachy::cli {

using nlohmann::json;

void report_world(const WorldCommandOptions& o, const json& event, const std::string& text) {
  std::FILE* const to = o.output == "-" ? stderr : stdout;
  if (o.json)
    say(to, json_line(event) + "\n");
  else if (!o.quiet && !text.empty())
    say(to, text + "\n");
}

Engine open_world_engine(const WorldCommandOptions& o) {
  EngineOptions engine = o.engine;
  engine.device = choose_device(engine.device);
  engine.graphs = !o.no_graph, engine.arena = !o.no_arena;
  if (!o.max_vram.empty()) engine.max_vram = naming("`max_vram`", [&] { return parse_bytes(o.max_vram); });
  const std::filesystem::path model =
      o.model.empty() ? shipped_model("world") : std::filesystem::path(o.model);
  return naming("`model`", [&] { return Engine(model, engine); });
}

World open_world(const Engine& engine, const WorldCommandOptions& o) {
  WorldOptions options{.steps = o.steps,
                       .window = o.window,
                       .shift = o.shift,
                       .level = o.level,
                       .dtype = o.dtype,
                       .vae_math = o.vae_math,
                       .without = o.without};
  if (!o.size.empty()) parse_size(o.size, options.width, options.height);
  return naming("`model`", [&] { return World(engine, options); });
}

WorldStart world_start(const WorldCommandOptions& o, World& world, bool of_page) {
  const WorldInfo& info = world.info();
  WorldStart start{.image = nullptr, .image_embeds = nullptr, .prompt = o.prompt, .seed = o.seed};
  require(!info.takes_image || !o.image.empty() || of_page,
          "`image`: a world of this kind begins with a picture; give one, such as --image start.png");
  require(!info.takes_image || !o.image.empty() || o.image_embeds.empty(),
          "`image_embeds`: they belong to one picture; give that one, too, with --image");
  if (!o.image.empty())
    start.image = naming("`image`", [&] { return std::make_shared<const Picture>(read_picture(o.image)); });
  if (!o.image_embeds.empty())
    start.image_embeds = naming("`image_embeds`", [&] {
      return std::make_shared<const ImageEmbeds>(read_image_embeds(o.image_embeds));
    });
  // Report errors that no visitor could fix now, instead of serving a page on which each start fails.
  WorldStart whole = start;
  if (of_page && info.takes_image && !whole.image)
    whole.image = std::make_shared<const Picture>(
        Picture{info.width, info.height,
                std::vector<uint8_t>(size_t{3} * static_cast<size_t>(info.width) *
                                     static_cast<size_t>(info.height))});
  if (of_page && info.takes_prompt && whole.prompt.empty()) whole.prompt = "a prompt";
  world.verify(whole);
  return start;
}

serve::PageOptions page_options(const WorldCommandOptions& o) {
  serve::PageOptions page;
  if (o.host) page.host = *o.host;
  if (o.port) page.port = *o.port;
  page.token = o.token;
  serve::check_options(page);
  return page;
}

namespace {

// Returns an address that another machine can open; "all addresses" is none.
std::string elsewhere(const std::string& host) {
  if (host != "0.0.0.0" && host != "::") return "";
  return fmt::format("\nfrom another machine: the same with this one's name or address in place of {}",
                     host == "::" ? "[::]" : host);
}

}  // namespace

int run_world_page(const WorldCommandOptions& o) {
  require(o.actions.empty() && !o.frames && !o.seconds && !o.stream && o.crf == -1 && o.encode_speed.empty(),
          "--output: a script or a length is given, so the video needs a name: tachyscope world --image "
          "start.png --actions script.json -o walk.mp4");
  require(o.profile.empty(),
          "--profile: a session in a page has no end that a profile could be written at; give --output");
  serve::PageOptions page = page_options(o);
  const Engine engine = open_world_engine(o);
  World opened = open_world(engine, o);
  page.play.start = world_start(o, opened, true);
  const std::unique_ptr<serve::SteeredWorld> world = serve::steered(std::move(opened));
  const WorldInfo& info = world->info();
  page.play.fps = o.fps.value_or(info.fps);
  serve::PageServer server(*world, page);
  report_world(
      o,
      {{"event", "page"},
       {"url", server.url()},
       {"port", server.port()},
       {"kind", info.kind},
       {"device", world->device()},
       {"peak_bytes", info.peak_bytes},
       {"width", info.width},
       {"height", info.height},
       {"fps", page.play.fps}},
      fmt::format("{}  ({}, {}x{}, {} frames per second, {}; ctrl-C ends it){}", server.url(), info.kind,
                  info.width, info.height, page.play.fps, world->device(), elsewhere(page.host)));
  server.run(&g_cancel);
  fail(ErrorCode::cancelled, "cancelled");
}

}  // namespace tachy::cli
