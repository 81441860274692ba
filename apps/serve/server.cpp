#include "server.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/log.h"
#include "cli/say.h"
#include "ending.h"
#include "hosts.h"
#include "http/access.h"
#include "http/server.h"
#include "queue/event_book.h"
#include "queue/files_lock.h"
#include "queue/job_folder.h"
#include "queue/postgres_table.h"
#include "queue/sqlite_table.h"
#include "report/info.h"
#include "serve/world_door.h"
#include "web_api/api_error.h"
#include "web_api/gate.h"
#include "web_api/keys.h"
#include "web_api/links.h"
#include "web_api/service.h"
#include "web_api/webhooks.h"
#include "web_page/page_routes.h"
#include "workers/foreman.h"
#include "workers/metrics.h"
#include "workers/models.h"
#include "worlds.h"

namespace tachy::serve_app {
namespace {

constexpr int64_t kMsOfDay = 86'400'000;

// The caller is told no more than that the fault is the server's; whoever runs the server reads what it was.
void log_fault(const http::Request& request, const std::exception& error) {
  try {
    cli::say(stderr, fmt::format("tachyscope: {} {}: {}\n", request.method, request.path, error.what()));
  } catch (const std::exception&) {
    // Nobody reads standard error.
  }
}

std::vector<workers::ServedModel> models_of(const cli::ServeOptions& o) {
  std::vector<workers::ServedModel> out;
  bool jobs = false;
  for (const cli::NamedModel& model : cli::served_models(o)) {
    const ModelInfo info = naming("--model " + model.name, [&] { return describe_model(model.path); });
    out.push_back(
        {.name = model.name, .path = model.path, .world = info.kind.find("world") != info.kind.npos});
    jobs = jobs || !out.back().world;
  }
  require(jobs,
          "--model: every one of these models is a world, which takes no jobs; add one that makes videos");
  return out;
}

EngineOptions engine_of(const cli::ServeOptions& o) {
  EngineOptions engine = o.engine;
  engine.max_vram = cli::bytes_in("--max-vram", o.max_vram, 0);
  return engine;
}

std::vector<std::string> cards_of(const EngineOptions& o) {
  return o.gpus.empty() ? std::vector<std::string>() : devices_of_gpus(o.gpus, o.device);
}

std::optional<web_api::WebhookOptions> webhook_of(const cli::ServeOptions& o) {
  if (o.webhook.empty()) return std::nullopt;
  naming("--webhook", [&] { web_api::check_webhook_url(o.webhook); });
  return web_api::WebhookOptions{.url = o.webhook,
                                 .secret = naming("--webhook-secret-file", [&] {
                                   return web_api::read_webhook_secret(o.webhook_secret_file);
                                 })};
}

// Everything that lives as long as the server, in the order in which it may go.
class House {
 public:
  explicit House(const cli::ServeOptions& o)
      : options_(o),
        webhook_(webhook_of(o)),
        keys_(o.keys.empty() ? std::nullopt
                             : std::optional(naming("--keys", [&] { return web_api::Keys::read(o.keys); }))),
        lock_(naming("--files",
                     [&] {
                       return queue::FilesLock(o.files.empty() ? queue::default_files() : o.files,
                                               host_name(o));
                     })),
        opened_(open_table()),
        table_(*opened_),
        hosts_(o.database.empty() ? nullptr : std::make_unique<Hosts>(o, lock_, table_)),
        book_(lock_.files(), hosts_ != nullptr),
        models_(models_of(o), engine_of(o), cards_of(o.engine)),
        foreman_(foreman_options(), table_, book_, models_),
        service_(make_service()),
        door_(door_options()) {}

  int run() {
    if (!options_.public_names.empty() && !keys_)
      warn("--public-name without --keys: everybody who reaches the proxy may use this server");
    web_api::tidy(service_);
    http::Router router;
    web_api::add_routes(router, service_);
    door_.add_routes(router);
    web_page::add_routes(router);
    http::Server server(std::move(router), http_options());
    const ClosesDoor closes{door_};  // before the server is gone, whatever happens
    if (hosts_) hosts_->begin(foreman_, server.port());
    foreman_.start();
    std::optional<web_api::Webhooks> webhooks;
    if (webhook_) webhooks.emplace(*webhook_, table_);
    tell(server);
    server.run(&g_ending);
    foreman_.stop();
    if (hosts_) hosts_->end();
    return 0;
  }

 private:
  struct ClosesDoor {
    serve::WorldDoor& door;
    ~ClosesDoor() { door.close(); }
  };

  std::unique_ptr<queue::JobTable> open_table() const {
    const auto keep_ms = static_cast<int64_t>(options_.keep_days * kMsOfDay);
    if (options_.database.empty())
      return std::make_unique<queue::SqliteTable>(lock_.database(), queue::SqliteOptions{.keep_ms = keep_ms});
    return naming("--database", [&] {
      return std::make_unique<queue::PostgresTable>(options_.database,
                                                    queue::PostgresOptions{.keep_ms = keep_ms});
    });
  }

  auto message() const -> std::function<std::optional<queue::Webhook>(const queue::JobRow&)> {
    if (!webhook_) return {};
    return web_api::end_of_job;
  }

  workers::ForemanOptions foreman_options() {
    workers::ForemanOptions out;
    out.files = lock_.files(), out.loras = options_.lora_dir, out.at_once = options_.at_once;
    out.keep_days = options_.keep_days;
    out.keep_bytes = cli::bytes_in("--keep-bytes", options_.keep_bytes, 0);
    out.message = message();
    out.measured = [this](const nlohmann::json& event) {
      metrics_.measured(event);
      if (hosts_) hosts_->measured(event);
    };
    if (hosts_) hosts_->prepare(out);
    return out;
  }

  web_api::Service make_service() {
    web_api::Offers offers{.models = models_,
                           .loras = options_.lora_dir,
                           .url_hosts = options_.allow_urls,
                           .spool = lock_.spool(),
                           .presets = [this](const std::string& owner) { return table_.presets(owner); },
                           .upload_bytes = cli::bytes_in("--max-upload", options_.max_upload, kUpload)};
    web_api::Service out{.table = table_, .book = book_, .foreman = foreman_, .offers = std::move(offers)};
    out.files = lock_.files();
    out.most_queued = options_.queue, out.most_queued_of_key = options_.key_queue;
    out.most_pixel_frames = options_.max_pixel_frames;
    if (keys_) out.holders = keys_->holders();
    out.keys = keys_.has_value(), out.loopback = http::is_loopback(options_.host);
    out.tickets = keys_ ? &tickets_ : nullptr;
    out.link_secret = web_api::link_secret(lock_.files());  // hosts that share the folder share it
    out.ending = &g_ending;
    out.message = message();
    out.metrics = [this] { return metrics_.text(table_.counts(), table_.hosts()); };
    if (hosts_) hosts_->prepare(out);
    return out;
  }

  serve::WorldDoorOptions door_options() {
    return world_door_options(models_, foreman_, keys_ ? &tickets_ : nullptr);
  }

  http::ServerOptions http_options() {
    http::ServerOptions out;
    out.host = options_.host, out.port = options_.port, out.spool = lock_.spool();
    out.limits.upload_bytes = service_.offers.upload_bytes;
    web_api::GateOptions gate{.host = options_.host,
                              .names = options_.public_names,
                              .keys = keys_,
                              .link_secret = service_.link_secret,
                              .now = [this] { return table_.now_ms() / 1000; }};
    if (hosts_) hosts_->prepare(gate);
    out.gate = web_api::make_gate(std::move(gate));
    out.on_error = [](int status, const std::exception* error, const http::Request& request) {
      http::Reply reply = error ? web_api::error_reply(*error) : web_api::error_reply(status);
      if (error && reply.status == 500) log_fault(request, *error);
      return reply;
    };
    out.answered = [this](std::string_view pattern, std::string_view method, int status) {
      metrics_.answered(pattern, method, status);
    };
    return out;
  }

  void tell(const http::Server& server) const {
    if (options_.json) {
      cli::say(stdout,
               json_line({{"event", "listening"}, {"url", server.url()}, {"port", server.port()}}) + "\n");
      return;
    }
    if (options_.quiet) return;
    std::string names;
    for (const workers::ServedModel& model : models_.all()) names += (names.empty() ? "" : ", ") + model.name;
    cli::say(stdout, fmt::format("{}  (the page; {}v1 for programs; {}; files in {}; ctrl-C ends it)\n",
                                 server.url(), server.url(), names, lock_.files().string()));
  }

  static constexpr uint64_t kUpload = uint64_t{512} << 20;

  const cli::ServeOptions& options_;
  const std::optional<web_api::WebhookOptions> webhook_;
  const std::optional<web_api::Keys> keys_;
  queue::FilesLock lock_;
  const std::unique_ptr<queue::JobTable> opened_;
  queue::JobTable& table_;
  const std::unique_ptr<Hosts> hosts_;  // null: this server is alone
  queue::EventBook book_;
  workers::Metrics metrics_;
  workers::Models models_;
  workers::Foreman foreman_;
  web_api::Tickets tickets_;
  web_api::Service service_;
  serve::WorldDoor door_;
};

}  // namespace

int serve(const cli::ServeOptions& options) { return House(options).run(); }

}  // namespace tachy::serve_app
