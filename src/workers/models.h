// The models that a server offers, each under a name. A model is opened when somebody first needs it, and
// stays open; its weights are loaded by the first job and stay, as long as nobody else on the device needs
// their memory.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/tachyscope.h"
#include "jobs/job_spec.h"

namespace tachy::workers {

struct ServedModel {
  std::string name;            // "wan"
  std::filesystem::path path;  // a folder or a file
  bool world = false;          // steered by keys: it has a page and takes no jobs
  int64_t since = 0;           // the time of its file, in seconds since 1970
};

class Models {
 public:
  // `engine` has the options that all of them share (device, threads, and one `max_vram` for all of them
  // together). The first model that is not a world is the default. `cards` are the devices that run jobs, such as
  // "cuda:0" and "cuda:2", each with models of its own; empty: engine.device alone. There, max_vram is a card's.
  Models(std::vector<ServedModel> models, EngineOptions engine, std::vector<std::string> cards = {});
  ~Models();

  const std::vector<ServedModel>& all() const;
  bool on_gpu() const;
  int cards() const;                                       // how many devices run jobs
  const ServedModel* find(const std::string& name) const;  // "" is the default; null: there is none
  // Opens the model on a card. Others who ask for it at the same time wait. Throws not_found for an unknown name,
  // and what Engine() throws.
  std::shared_ptr<Engine> open(const std::string& name, int card = 0);
  // Returns null if nobody has opened it there yet.
  std::shared_ptr<Engine> opened(const std::string& name, int card = 0) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy::workers
