// Files of jobs that another host has: asked of that host, or fetched from the store, once. They are kept in a folder of
// this host and sent from there, so ranges and tags are answered as for a file of one's own.
//
// Only addresses that a host has announced in the table are connected to, and only for the few files that a job has. No
// redirect is followed.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "queue/job_table.h"
#include "web_api/hosts/far_events.h"
#include "web_api/hosts/host_secret.h"
#include "workers/presence.h"

namespace tachy::web_api {

struct PassOnOptions {
  std::string files_id;              // this host's folder of files
  std::filesystem::path kept;        // where fetched files are kept; emptied at the start
  uint64_t most_bytes = 8ull << 30;  // of all kept files; those that were used the longest ago go first
  double seconds = 600;              // for one file
  std::optional<HostSecret> secret;  // none: other hosts are not asked
  // Fetches a job's file from the store into this new file; false: it is not there. Empty: there is no store.
  std::function<bool(const queue::JobRow& row, const std::string& name, const std::filesystem::path& to)>
      store;
};

class PassOn {
 public:
  PassOn(PassOnOptions options, queue::JobTable& table, workers::Presence& presence);
  ~PassOn();  // ends the streams of events
  PassOn(const PassOn&) = delete;
  PassOn& operator=(const PassOn&) = delete;

  // Says whether the job's files are in a folder that is not this host's.
  bool elsewhere(const queue::JobRow& row) const {
    return !row.files.empty() && row.files != options_.files_id;
  }

  // Returns a file of a job: "content?variant=video", "previews/7", "inputs/NAME". Throws ApiError: what the owner
  // answers, and not_available with the owner's name if it does not answer.
  std::filesystem::path file(const queue::JobRow& row, const std::string& what, const http::Caller& caller);
  // Returns the events of a job after this number until its end, as the owner streams them. A job that waits here may be
  // begun by a host with another folder: `here` gives the events of this one until then. Where another host goes on with
  // a job, its events follow from the first one on.
  using EventsHere = std::function<std::string(int64_t seen)>;
  std::shared_ptr<http::EventFeed> events(const queue::JobRow& row, int64_t after, const http::Caller& caller,
                                          EventsHere here);
  bool may_move(const queue::JobRow& row) const;  // whether its files may soon be there
  // Brings an input of a job from whichever host has it into the folder. Throws not_found.
  void input(const queue::JobRow& row, const std::string& name, const std::filesystem::path& to);
  // Lets the host that has the files of a job remove them, whose row is gone. One that does not answer does it at its
  // next start. Never throws.
  void remove(const queue::JobRow& row);

 private:
  struct Asked {
    int status = 0;  // 0: it does not answer
    std::string reason;
  };
  Asked ask(const workers::Host& host, const std::string& target, const http::Caller& caller,
            const std::filesystem::path& to) const;
  std::vector<workers::Host> owners(const std::string& files);
  bool input_of_any_host(const std::string& target, const std::filesystem::path& part);
  void fetch(const queue::JobRow& row, const std::string& what, const http::Caller& caller,
             const std::filesystem::path& to);
  void make_room();
  bool follow_far(const queue::JobRow& row, const http::Caller& caller, const FarSink& sink, Told& told);
  void follow(const queue::JobRow& row, int64_t after, const http::Caller& caller, const EventsHere& here,
              const FarSink& sink);

  const PassOnOptions options_;
  queue::JobTable& table_;
  workers::Presence& presence_;
  std::array<std::mutex, 16> fetching_;  // one for the jobs of some ids, so that a file is fetched once
};

}  // namespace tachy::web_api
