// Replacements for what fuzz_web_api (CMakeLists.txt) calls of models, engines and other servers: there are none.
#include "api/tachyscope.h"
#include "web_api/api_error.h"
#include "web_api/fetch_url.h"
#include "workers/models.h"

namespace tachy {

const VideoRequest& Engine::defaults() const { fail(ErrorCode::not_found, "`model`: there is none"); }

namespace workers {

struct Models::State {
  std::vector<ServedModel> all;
};
Models::Models(std::vector<ServedModel> models, EngineOptions, std::vector<std::string>)
    : state_(new State{std::move(models)}) {}
Models::~Models() = default;
const std::vector<ServedModel>& Models::all() const { return state_->all; }
bool Models::on_gpu() const { return false; }
const ServedModel* Models::find(const std::string& name) const {
  for (const ServedModel& model : state_->all)
    if (name.empty() || model.name == name) return &model;
  return nullptr;
}
std::shared_ptr<Engine> Models::open(const std::string&, int) {
  fail(ErrorCode::not_found, "`model`: there is none");
}

}  // namespace workers

std::shared_ptr<http::SpooledFile> web_api::fetch_url(const std::string&, const Offers&) {
  throw ApiError("invalid_value", "nothing is fetched here");
}

}  // namespace tachy
