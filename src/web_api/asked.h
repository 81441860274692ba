// The questions that every endpoint asks first: which job is meant, whether the caller may see it, and whether
// what stands in the query is what it may be.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "web_api/service.h"

namespace tachy::web_api {

// Says whether the caller may see and change what belongs to `owner`: its own, and everything for an administrator
// or where there are no keys.
bool may_see(const Service& service, const http::Caller& caller, const std::string& owner);
bool sees_all(const Service& service, const http::Caller& caller);

// Returns the job of that id. Throws not_found if there is none or the caller may not see it; nobody learns which.
// `param` is the field in which the id was given, "" for one in the address.
queue::JobRow visible_job(Service& service, const http::Caller& caller, const std::string& id,
                          const std::string& param = "");
// Returns the job in the request's address.
queue::JobRow job_of(Service& service, const http::Request& request);

// Says whether another host has the job's files and is to be asked for them. A request that a host has passed on is
// never passed on again.
bool is_elsewhere(const Service& service, const http::Request& request, const queue::JobRow& row);
// Returns where a completed job's video is on this host, fetched if another one has it. Throws expired, and what
// PassOn::file() throws.
std::filesystem::path local_video(Service& service, const http::Request& request, const queue::JobRow& row);

// Throws not_available while the server is going down.
void refuse_while_ending(const Service& service);

// A whole number or one of some words in the query; the first where one is given twice. They throw invalid_value.
int number_asked(const http::Request& request, std::string_view name, int otherwise, int least, int most);
std::string choice_asked(const http::Request& request, std::string_view name,
                         const std::vector<std::string>& choices);  // the first is the default

int64_t now_ms();                          // since 1970
bool has_ended(const queue::JobRow& row);  // completed or failed

}  // namespace tachy::web_api
