// From the body of a request to a job: multipart as the openai client sends it (lists in brackets, objects in brackets
// or as JSON in a text) and JSON, under the spellings that servers of this field share. All settings of generate and
// talk come from the one table of fields (request/request_fields.h).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "http/message.h"
#include "jobs/job_spec.h"
#include "queue/job_row.h"
#include "web_api/api_error.h"
#include "workers/models.h"

namespace tachy::web_api {

// Everything that a request may name on this server.
struct Offers {
  workers::Models& models;
  std::filesystem::path loras;         // the folder of LoRA files; "": none
  std::vector<std::string> url_hosts;  // hosts from which inputs may be fetched; empty: none
  std::filesystem::path spool;         // where fetched and decoded inputs lie until a job takes them
  std::function<std::vector<queue::Preset>(const std::string& owner)> presets;
  uint64_t upload_bytes = uint64_t{512} << 20;
};

struct JobRequest {
  std::string model;        // the served name
  jobs::JobSpec job;        // its inputs are files of the spool, or of the server
  nlohmann::json given;     // the fields as the caller spelt them, files by name and hash: kept with the job
  std::string needs;        // as in JobRow
  std::string fingerprint;  // of the parsed fields and the files' hashes, for Idempotency-Key
  int priority = 0;
  bool seed_drawn = false;
  std::set<std::string> dropped;  // members that are given as null: the earlier job's do not count either
  std::vector<std::shared_ptr<http::SpooledFile>> files;  // those that `job` names, which keep() moves
};

// The body as one JSON object, whatever its form: names are unbracketed, texts of a multipart body stay texts, and a
// file is {"file": index in `files`}. Throws ApiError.
struct Fields {
  nlohmann::json values = nlohmann::json::object();
  bool typed = false;  // JSON, where a number is a number; in a multipart body everything is text
  bool plans = false;  // nothing is run: a video may be told by its width, height, frames and fps
  std::vector<std::shared_ptr<http::SpooledFile>> files;
};
Fields fields_of(const http::Request& request);

// Throws ApiError for a field that is unknown, given twice, of the wrong kind or out of its range. `base` has fields
// that count where the caller gives none (remix, change); null: none.
JobRequest parse_job(const Fields& fields, const http::Caller& caller, const Offers& offers,
                     const nlohmann::json* base = nullptr);

// Every field that create takes, with its JSON schema, for /openapi.json.
nlohmann::json request_schema();

}  // namespace tachy::web_api
