// The parts of a server that shares its queue with others: its name and announcement, what is asked of the others, and
// the store of finished videos (src/web_api/hosts/README.md).
#pragma once

#include <memory>
#include <string>

#include "cli/serve_options.h"
#include "queue/files_lock.h"
#include "queue/job_table.h"
#include "web_api/gate.h"
#include "web_api/hosts/pass_on.h"
#include "web_api/hosts/store.h"
#include "web_api/service.h"
#include "workers/foreman.h"
#include "workers/presence.h"

namespace tachy::serve_app {

// Returns the name of this host, that of the machine unless the options give another one; "" for a server that is alone.
std::string host_name(const cli::ServeOptions& options);

class Hosts {
 public:
  // Throws what is wrong with the options' files. All arguments outlive this object.
  Hosts(const cli::ServeOptions& options, const queue::FilesLock& files, queue::JobTable& table);

  void prepare(workers::ForemanOptions& options);  // before the Foreman is made
  void prepare(web_api::Service& service);         // before routes are added
  void prepare(web_api::GateOptions& gate);        // before the server listens
  void measured(const nlohmann::json& event) { steps_.measured(event); }
  // Announces this host, which the others reach at this port from now on. Throws io if the table cannot be written.
  void begin(const workers::Foreman& foreman, int port);
  void end();  // before the Foreman goes

 private:
  workers::Host self() const;
  web_api::PassOnOptions pass_on_options() const;
  void store(const queue::JobRow& row, const queue::JobFolder& folder) const;
  void forget(const std::string& id) const;
  void fetch_inputs(const queue::JobRow& row, const queue::JobFolder& folder);
  std::filesystem::path fetch_video(const queue::JobRow& row);

  const cli::ServeOptions& options_;
  const queue::FilesLock& files_;
  queue::JobTable& table_;
  const std::string name_;
  const std::optional<web_api::HostSecret> secret_;
  const std::optional<web_api::S3Store> store_;
  const workers::Foreman* foreman_ = nullptr;  // set by begin(), before anything asks
  std::string address_;
  workers::StepTimes steps_;
  workers::Presence presence_;
  std::unique_ptr<web_api::PassOn> pass_on_;
};

}  // namespace tachy::serve_app
