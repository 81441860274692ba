#include "hosts.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/tachyscope.h"
#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/os/network.h"
#include "web_api/fields/loras.h"
#include "workers/job_of_row.h"

namespace tachy::serve_app {
namespace {

constexpr std::chrono::seconds kBetweenTries{5};
// The files of a finished job that the store gets, by the names of their variants (JobFolder).
constexpr std::pair<const char*, const char*> kStored[] = {{"thumbnail", "thumbnail.jpg"},
                                                           {"video", "video.mp4"}};

std::optional<web_api::S3Store> store_of(const cli::ServeOptions& o, const queue::JobTable& table) {
  if (o.store.empty()) return std::nullopt;
  return naming("--store", [&] {
    web_api::S3Options options = web_api::s3_options(o.store);
    options.now_s = [&table] { return table.now_ms() / 1000; };  // a store refuses signatures of another hour
    return web_api::S3Store(std::move(options));
  });
}

std::optional<web_api::HostSecret> secret_of(const cli::ServeOptions& o) {
  if (o.cluster_secret_file.empty()) return std::nullopt;
  return naming("--cluster-secret-file", [&] { return web_api::HostSecret::read(o.cluster_secret_file); });
}

bool listens_everywhere(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

std::string address_of(const cli::ServeOptions& o, int port) {
  if (!o.advertise.empty()) return o.advertise;
  const std::string host = listens_everywhere(o.host) ? os::machine_name() : o.host;
  return os::is_ipv6_address(host) ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace

std::string host_name(const cli::ServeOptions& o) {
  if (o.database.empty()) return "";
  const std::string name = o.name.empty() ? os::machine_name() : o.name;
  require(queue::is_host_name(name), "--name: expected 1 to 64 letters, digits, '.', '-' and '_', got '{}'{}",
          name, o.name.empty() ? ", which is this machine's name" : "");
  return name;
}

Hosts::Hosts(const cli::ServeOptions& options, const queue::FilesLock& files, queue::JobTable& table)
    : options_(options),
      files_(files),
      table_(table),
      name_(host_name(options)),
      secret_(secret_of(options)),
      store_(store_of(options, table)),
      presence_(table, [this] { return self(); }),
      pass_on_(std::make_unique<web_api::PassOn>(pass_on_options(), table, presence_)) {}

web_api::PassOnOptions Hosts::pass_on_options() const {
  web_api::PassOnOptions out{.files_id = files_.id(), .kept = files_.own() / "fetched", .secret = secret_};
  if (store_)
    out.store = [this](const queue::JobRow& row, const std::string& variant,
                       const std::filesystem::path& to) {
      for (const auto& [name, file] : kStored)
        if (variant == name) return store_->get(row.id, file, to);
      return false;
    };
  return out;
}

// Repeats what the store does not take until it does: the table says that a video is finished when everybody can have
// it. Until then the job is under way, and a worker that takes it up later finds it complete.
void Hosts::store(const queue::JobRow& row, const queue::JobFolder& folder) const {
  for (const auto& [name, file] : kStored) {
    std::error_code ignored;
    while (std::filesystem::is_regular_file(folder.path / file, ignored)) try {
        store_->put(row.id, file, folder.path / file);
        break;
      } catch (const Error& e) {
        warn("{}: it is finished, and the store cannot be written, which is tried again: {}", row.id,
             e.message());
        std::this_thread::sleep_for(kBetweenTries);
      }
  }
}

void Hosts::forget(const std::string& id) const try {
  for (const auto& [name, file] : kStored) store_->remove(id, file);
} catch (const Error& e) {
  warn("{}: its files stay in the store: {}", id, e.message());
}

workers::Host Hosts::self() const {
  workers::Host host;
  host.row = {.name = name_, .address = address_, .files = files_.id(), .about = ""};
  foreman_->describe(host.about);
  if (options_.role != "both") host.about.role = options_.role;
  for (const web_api::OfferedLora& lora : web_api::offered_loras(options_.lora_dir))
    host.about.loras.push_back(lora.name);
  host.about.step_seconds = steps_.means();
  return host;
}

void Hosts::prepare(workers::ForemanOptions& out) {
  out.own = files_.own(), out.worker = name_, out.presence = &presence_, out.files_id = files_.id();
  out.runs = options_.role != "api";
  out.fetch_inputs = [this](const queue::JobRow& row, const queue::JobFolder& folder) {
    fetch_inputs(row, folder);
  };
  out.fetch_video = [this](const queue::JobRow& row) { return fetch_video(row); };
  if (!store_) return;
  out.store = [this](const queue::JobRow& row, const queue::JobFolder& folder) { store(row, folder); };
  out.removed = [this](const std::string& id) { forget(id); };
}

// The files that a job names in its settings, where they are not in its folder yet.
void Hosts::fetch_inputs(const queue::JobRow& row, const queue::JobFolder& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder.inputs(), error);
  check(!error, ErrorCode::io, "the job's folder cannot be made: {}", error.message());
  for (const std::string& name : workers::input_names(row)) {
    const std::filesystem::path file = folder.inputs() / name;
    if (!std::filesystem::is_regular_file(file, error)) pass_on_->input(row, name, file);
  }
}

// Returns the video of a job that another host has, or "" while that host does not answer. Throws io with what the
// owner has answered.
std::filesystem::path Hosts::fetch_video(const queue::JobRow& row) {
  try {
    return pass_on_->file(row, "content?variant=video", {.key = "", .admin = true});
  } catch (const web_api::ApiError& e) {
    if (e.status() == 503) return {};
    fail(ErrorCode::io, "{}", e.message);
  }
}

void Hosts::prepare(web_api::Service& out) {
  out.files_id = files_.id(), out.own = files_.own(), out.presence = &presence_, out.pass_on = pass_on_.get();
  if (secret_) out.link_secret = secret_->for_links();
  if (store_) out.removed = [this](const std::string& id) { forget(id); };
}

void Hosts::prepare(web_api::GateOptions& gate) {
  if (!secret_) return;
  gate.host_caller = [this](const http::Request& request) {
    return secret_->verified(request, name_, table_.now_ms() / 1000);
  };
}

void Hosts::begin(const workers::Foreman& foreman, int port) {
  foreman_ = &foreman, address_ = address_of(options_, port);
  require(web_api::is_host_address(address_), "--advertise: expected HOST:PORT, got '{}'", address_);
  presence_.start();
  for (const workers::Host& host : presence_.hosts())
    if (!secret_ && host.row.files != files_.id()) {
      warn(
          "{} has a folder of files of its own, and without --cluster-secret-file it is not asked for them; "
          "give all "
          "hosts the same secret",
          host.row.name);
      break;
    }
}

void Hosts::end() {
  web_api::end_far_events();
  presence_.stop();
}

}  // namespace tachy::serve_app
