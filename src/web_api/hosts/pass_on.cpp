#include "web_api/hosts/pass_on.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "base/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os/file.h"
#include "web_api/api_error.h"
#include "web_api/curl.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kBetweenLooks{100};  // five of them are between two looks at the table

// Returns the name of a fetched file. What is asked for comes from routes of ours, never from a caller's text.
std::string kept_name(const queue::JobRow& row, const std::string& what) {
  std::string name = row.id + "-" + what;
  for (char& c : name)
    if (c == '/' || c == '?' || c == '=') c = '-';
  return name;
}

// Inputs have an address for hosts alone, since clients know them by their fields and hosts by their files' names.
std::string target_for(const std::string& id, const std::string& what) {
  const char* const begin = what.starts_with("inputs/") ? "/v1/hosts/jobs/" : "/v1/videos/";
  return fmt::format("{}{}/{}", begin, id, what);
}

[[noreturn]] void not_there(const std::string& host, const std::string& reason) {
  ApiError error(
      "not_available",
      fmt::format("{} has the files of this video and does not answer{}; try again when it is back",
                  host.empty() ? "a host that is gone" : host, reason.empty() ? "" : " (" + reason + ")"));
  error.headers = {{"Retry-After", "10"}};
  throw error;
}

[[noreturn]] void pass_back(int status, const std::string& host) {
  if (status == 404) throw ApiError("not_found", "there is no such file of this video");
  if (status == 410) throw ApiError("expired", "the video's file is not kept any longer");
  not_there(host, fmt::format("its status is {}", status));
}

}  // namespace

PassOn::PassOn(PassOnOptions options, queue::JobTable& table, workers::Presence& presence)
    : options_(std::move(options)), table_(table), presence_(presence) {
  std::error_code error;
  fs::remove_all(options_.kept, error);
  fs::create_directories(options_.kept, error);
  check(!error, ErrorCode::io, "{}: cannot make this folder: {}", options_.kept.string(), error.message());
  if (options_.secret) need_curl();
}

PassOn::~PassOn() { end_far_events(); }

fs::path PassOn::file(const queue::JobRow& row, const std::string& what, const http::Caller& caller) {
  const fs::path kept = options_.kept / kept_name(row, what);
  std::error_code error;
  const std::lock_guard lock(fetching_[std::hash<std::string>()(row.id) % fetching_.size()]);
  if (fs::is_regular_file(kept, error)) {
    fs::last_write_time(kept, fs::file_time_type::clock::now(), error);  // it was used
    return kept;
  }
  const fs::path part = kept.string() + ".part";
  fs::remove(part, error);
  try {
    fetch(row, what, caller, part);
  } catch (...) {
    fs::remove(part, error);
    throw;
  }
  fs::rename(part, kept, error);
  check(!error, ErrorCode::io, "a fetched file cannot be kept: {}", error.message());
  make_room();
  return kept;
}

// Returns the owners of a folder. One of them may have begun after this host last read of the others.
std::vector<workers::Host> PassOn::owners(const std::string& files) {
  std::vector<workers::Host> found = presence_.with_files(files);
  const auto alive = [](const workers::Host& host) { return host.row.alive; };
  if (std::ranges::none_of(found, alive) && presence_.look_again()) found = presence_.with_files(files);
  return found;
}

void PassOn::fetch(const queue::JobRow& row, const std::string& what, const http::Caller& caller,
                   const fs::path& to) {
  constexpr std::string_view kContent = "content?variant=";
  if (options_.store && what.starts_with(kContent) && options_.store(row, what.substr(kContent.size()), to))
    return;
  if (!options_.secret) not_there(row.worker, "this server was started without the hosts' secret");
  std::string last = row.worker, reason;
  for (const workers::Host& host : owners(row.files)) {
    if (!host.row.alive) continue;
    const Asked asked = ask(host, target_for(row.id, what), caller, to);
    if (asked.status == 200) return;
    if (asked.status != 0) pass_back(asked.status, host.row.name);
    last = host.row.name, reason = asked.reason;
  }
  not_there(last, reason);
}

PassOn::Asked PassOn::ask(const workers::Host& host, const std::string& target, const http::Caller& caller,
                          const fs::path& to) const {
  if (!is_host_address(host.row.address)) return {0, "it has announced no address"};
  std::error_code error;
  os::File file(to, os::OpenAs::new_file, error);
  check(!error, ErrorCode::io, "a fetched file cannot be written: {}", error.message());
  HttpCall call{.url = "http://" + host.row.address + target, .body = {}, .connect_seconds = 3};
  call.seconds = options_.seconds, call.most_bytes = options_.most_bytes;
  call.headers = {std::string(kHostHeader) + ": " +
                  options_.secret->signed_for(host.row.name, target, caller, table_.now_ms() / 1000)};
  call.take = [&](std::string_view bytes) {
    error = file.write(bytes.data(), bytes.size());
    return !error;
  };
  Asked asked;
  try {
    asked.status = http_call(call).status;
  } catch (const Error& e) {
    asked.reason = e.message();
  }
  check(!error, ErrorCode::io, "a fetched file cannot be written: {}", error.message());
  if (asked.status != 200) fs::remove(to, error);
  return asked;
}

// A job that another host has just taken is said to have its files here for a moment longer.
bool PassOn::may_move(const queue::JobRow& row) const {
  if (!options_.secret || row.ended_ms > 0) return false;
  if (row.status == queue::Status::in_progress && row.worker == presence_.self().row.name) return false;
  return std::ranges::any_of(presence_.hosts(), [&](const workers::Host& host) {
    return host.about.takes_jobs() && host.row.files != options_.files_id;
  });
}

std::shared_ptr<http::EventFeed> PassOn::events(const queue::JobRow& row, int64_t after,
                                                const http::Caller& caller, EventsHere here) {
  if (!options_.secret) not_there(row.worker, "this server was started without the hosts' secret");
  return far_events([this, row, after, caller, here = std::move(here)](const FarSink& sink) {
    follow(row, after, caller, here, sink);
  });
}

// The stream lasts until the job's end: where a host goes away, whoever goes on with its job is followed.
void PassOn::follow(const queue::JobRow& first, int64_t after, const http::Caller& caller,
                    const EventsHere& here, const FarSink& sink) {
  Told told{.files = "", .number = after};
  for (std::optional<queue::JobRow> row = first; row && !sink.cancel; row = table_.find(first.id)) {
    const std::string& files = elsewhere(*row) ? row->files : options_.files_id;
    if (!told.files.empty() && told.files != files) told.number = 0;
    told.files = files;
    const std::string text = elsewhere(*row) ? "" : here(told.number);
    told.note(text);
    const bool read =
        elsewhere(*row) ? follow_far(*row, caller, sink, told) : text.empty() || sink.take(text);
    if (!read || told.over || row->ended_ms > 0) return;
    for (int i = 0; i < 5 && !sink.cancel; ++i) std::this_thread::sleep_for(kBetweenLooks);
  }
}

// Returns false if nobody reads any more.
bool PassOn::follow_far(const queue::JobRow& row, const http::Caller& caller, const FarSink& sink,
                        Told& told) {
  const std::string target = fmt::format("/v1/videos/{}/events", row.id);
  for (const workers::Host& host : owners(row.files)) {
    if (!host.row.alive || !is_host_address(host.row.address)) continue;
    const std::string sign =
        options_.secret->signed_for(host.row.name, target, caller, table_.now_ms() / 1000);
    return read_far_events("http://" + host.row.address + target, {std::string(kHostHeader) + ": " + sign},
                           sink, told);
  }
  return true;
}

bool PassOn::input_of_any_host(const std::string& target, const fs::path& part) {
  std::error_code error;
  for (const workers::Host& host : presence_.hosts()) {
    if (host.row.files == options_.files_id) continue;
    fs::remove(part, error);
    if (ask(host, target, {.key = "", .admin = true}, part).status == 200) return true;
  }
  return false;
}

void PassOn::input(const queue::JobRow& row, const std::string& name, const fs::path& to) {
  check(options_.secret.has_value(), ErrorCode::not_found,
        "an input is on another host, and this server was started without the hosts' secret");
  const fs::path part = to.string() + ".part";
  const std::string target = target_for(row.id, "inputs/" + name);
  check(input_of_any_host(target, part) || (presence_.look_again() && input_of_any_host(target, part)),
        ErrorCode::not_found, "an input of this video is on no host that is there");
  std::error_code error;
  fs::rename(part, to, error);
  check(!error, ErrorCode::io, "an input cannot be written: {}", error.message());
}

void PassOn::remove(const queue::JobRow& row) try {
  const std::string target = "/v1/hosts/jobs/" + row.id;
  for (const workers::Host& host : owners(row.files)) {
    if (!options_.secret || !host.row.alive || !is_host_address(host.row.address)) continue;
    HttpCall call{.url = "http://" + host.row.address + target, .body = {}, .method = "DELETE"};
    call.connect_seconds = 3, call.seconds = 10;
    const http::Caller caller{.key = "", .admin = true};
    call.headers = {
        std::string(kHostHeader) + ": " +
        options_.secret->signed_for(host.row.name, target, caller, table_.now_ms() / 1000, "DELETE")};
    if (http_call(call).status == 200) return;
  }
} catch (const Error& e) {
  warn("{}: its files stay on the host that has them until that host begins again: {}", row.id, e.message());
}

// Whoever is about to send a file has opened it by then, or finds it gone and fetches it again.
void PassOn::make_room() {
  struct Kept {
    fs::path path;
    fs::file_time_type used;
    uint64_t bytes;
  };
  std::vector<Kept> all;
  uint64_t bytes = 0;
  std::error_code error;
  for (const fs::path& path : list_folder(options_.kept, error)) {
    if (path.extension() == ".part") continue;
    all.push_back({path, fs::last_write_time(path, error), fs::file_size(path, error)});
    bytes += error ? 0 : all.back().bytes;
  }
  std::ranges::sort(all, {}, &Kept::used);
  for (size_t i = 0; i + 1 < all.size() && bytes > options_.most_bytes; ++i) {
    bytes -= all[i].bytes;
    fs::remove(all[i].path, error);
  }
}

}  // namespace tachy::web_api
