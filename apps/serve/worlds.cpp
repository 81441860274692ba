#include "worlds.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/error.h"

namespace tachy::serve_app {
namespace {

int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A visitor learns the names of files, not where they lie.
std::string without_folder(const std::filesystem::path& model, std::string text) {
  const std::string folder = model.parent_path().string() + "/";
  if (model.is_absolute() && folder.size() > 2)
    for (size_t at = text.find(folder); at != text.npos; at = text.find(folder, at))
      text.erase(at, folder.size());
  return text;
}

// A world that begins with a picture may bring one; without it each visitor chooses one.
std::shared_ptr<const Picture> example_picture(const std::filesystem::path& model) {
  const std::filesystem::path file = model / "example" / "start.png";
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return nullptr;
  return std::make_shared<const Picture>(read_picture(file));
}

}  // namespace

serve::WorldDoorOptions world_door_options(workers::Models& models, workers::Foreman& foreman,
                                           web_api::Tickets* tickets) {
  serve::WorldDoorOptions out;
  for (const workers::ServedModel& model : models.all())
    if (model.world) out.names.push_back(model.name);
  out.open = [&models](const std::string& name) {
    const std::filesystem::path path = models.find(name)->path;
    try {
      World world(*models.open(name));
      serve::OpenedWorld opened;
      if (world.info().takes_image) opened.start.image = example_picture(path);
      opened.world = serve::steered(std::move(world));
      return opened;
    } catch (const Error& e) {
      throw Error(e.code(), without_folder(path, e.message()), e.where());
    }
  };
  out.make_room = [&foreman] { return foreman.make_room(); };
  if (tickets)
    out.ticket = [tickets](const std::string& ticket) {
      return tickets->take(ticket, seconds_now()).has_value();
    };
  return out;
}

}  // namespace tachy::serve_app
