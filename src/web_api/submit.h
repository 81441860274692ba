// The way of a job into the table. Its folder is complete and synced first, then the row is inserted: a crash in
// between leaves a folder that nobody knows, never a job without its inputs.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "web_api/job_files.h"
#include "web_api/service.h"

namespace tachy::web_api {

// Plans the job. Throws over_limit, with what would fit, if the machine or the server's own limits do not allow it.
workers::Outlook outlook_or_refuse(Service& service, const JobRequest& request, const std::string& owner);
// The same without the exception: `fits` is false, and `reason` says why. `warnings` gets what a run would warn of;
// without it that is dropped, since the run will tell the job's log.
workers::Outlook outlook_of(Service& service, const JobRequest& request, const std::string& owner,
                            std::vector<std::string>* warnings = nullptr);

// Plans and enters a video; answers with its Video object. `made_from` is as in
// JobRow::request, or {}; a job that has "awaited" waits for these.
http::Reply submit(Service& service, const http::Request& request, JobRequest job,
                   const nlohmann::json& made_from = nlohmann::json::object());

// Inserts the row whose folder is complete but has no name yet. An earlier job of the same idempotency key is the
// answer in its place.
http::Reply enter(Service& service, const http::Request& request, queue::JobRow row, NewFolder& folder,
                  const std::string& fingerprint, std::shared_ptr<const PreparedRequest> prepared);

// Throws queue_full if no job can be taken, before work is spent on one. A repeated request is let through.
void refuse_when_full(Service& service, const http::Request& request);

// Fills in what a row takes from a parsed and planned request.
void fill_row(queue::JobRow& row, const JobRequest& job, const workers::Outlook& outlook);

// Returns the fields that a job takes over from another one, without files and without our own members.
nlohmann::json fields_of_job(const queue::JobRow& row);
// An input that does not come with the request.
struct TakenOver {
  std::string name;  // as in request_inputs()
  std::filesystem::path path;
  std::string sha256;
  std::string spelling;  // the field under which JobRequest::given shows it, with the file's name
  std::string shown;
};
void add_inputs(JobRequest& to, const std::vector<TakenOver>& inputs);
// Hands on the inputs of `source` where the caller gave none of that kind.
void inherit_inputs(Service& service, const queue::JobRow& source, JobRequest& to);

// Returns where the input lies that the job was given as this field, or an empty path: the field is not there, or it is
// no file.
std::filesystem::path input_file(const Service& service, const queue::JobRow& row, const std::string& field);

}  // namespace tachy::web_api
