// A job as the table has it, and the lists and counts that are made of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "queue/host_row.h"

namespace tachy::queue {

enum class Status { queued, in_progress, completed, failed };
const char* to_string(Status status);

// Lists what somebody can ask of a job that is under way; the worker that has it obeys.
enum class Wish { none, cancel, cancel_keeping_frames, pause };

struct JobError {
  std::string code, message;  // "cancelled", "out_of_memory" …; empty: none
};

struct JobRow {
  std::string id;     // "video_" and 32 hexadecimal digits
  std::string owner;  // the name of the key that made it; "": the server has no keys
  Status status = Status::queued;
  bool paused = false;  // a queued job that nobody may take
  Wish wish = Wish::none;
  int priority = 0;   // -10 to 10; higher ones first
  double place = 0;   // the order among queued jobs of one priority; a job that is moved gets one in between
  std::string model;  // the name under which the server has it
  std::string needs;  // what must be in memory for it (model and adapters): jobs with equal needs are grouped
  std::string kind = "video";  // or "join", which needs no model
  std::string request;         // the request's fields as the caller spelt them, as a JSON object
  std::string settings;        // the job as jobs::to_json writes it
  std::string
      facts;  // what is known of the file that is made, as a JSON object: size, seconds, frames, bytes …
  double planned_seconds = 0;
  int64_t created_ms = 0, started_ms = 0, ended_ms = 0;  // since 1970; 0: not yet
  int64_t expires_ms = 0;                                // 0: never
  int progress = 0;                                      // 0 to 100; never goes back
  int attempts = 0;                                      // how often a worker has taken it
  std::string worker;                                    // who has it or had it last
  uint64_t bytes = 0;                                    // of its folder, when it has ended
  std::string files;  // the folder that has its files (HostRow::files); "": the server's only one
  std::string why;    // why its worker took it, in words; "": there is only one
  std::string
      awaits;   // ids of jobs that must be completed before it can begin, separated by spaces; "": none
  Usage usage;  // is read by end() alone, which adds it to what the owner has used
  JobError error;
};

// The facts about a waiting job by which the next one is chosen.
struct WaitingJob {
  std::string id, owner, model, needs;
  int priority = 0;
  double place = 0, planned_seconds = 0;
  int64_t created_ms = 0;
  int attempts = 0;
  bool paused = false;
  std::string files, awaits;  // as in JobRow
};

// JobRow::request has under this key what a job was made from: {"remix": ID}, or {"extension": ID, "from_frame": 7}. In
// one that waits for others, {"awaited": [ID …]} says so.
inline constexpr const char* kMadeFrom = "made_from";

// Returns the ids in JobRow::awaits.
std::vector<std::string> awaited_ids(const std::string& awaits);
std::string joined_ids(const std::vector<std::string>& ids);

struct Page {
  std::vector<JobRow> rows;
  bool has_more = false;
};

struct Counts {
  int64_t queued = 0, running = 0, completed = 0, failed = 0;
};

// A message about the end of a job to the address that the server was started with.
struct Webhook {
  std::string id, job, type, body;  // "msg_…", the job's id, "video.completed", JSON
  int attempts = 0;
  int64_t due_ms = 0;
};

struct Preset {
  std::string name, owner, fields;  // fields: a JSON object of a request's fields
};

}  // namespace tachy::queue
