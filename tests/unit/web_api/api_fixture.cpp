#include "api_fixture.h"

#include <fstream>

#include "base/error.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "web_api/api_error.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

void split_query(const std::string& target, http::Request& request) {
  const size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark == target.npos) return;
  std::istringstream query(target.substr(mark + 1));
  for (std::string pair; std::getline(query, pair, '&');) {
    const size_t equal = pair.find('=');
    request.query.emplace_back(pair.substr(0, equal), equal == pair.npos ? "" : pair.substr(equal + 1));
  }
}

}  // namespace

std::string Answer::header(const std::string& name) const {
  for (const auto& [key, value] : reply.headers)
    if (http::equal_names(key, name)) return value;
  return "";
}

void ApiTest::SetUp() {
  InTemporaryFolder::SetUp();
  fs::create_directories(folder_ / "jobs");
  fs::create_directories(folder_ / "spool");
  table = std::make_unique<queue::SqliteTable>(folder_ / "tachyscope.db");
  book = std::make_unique<queue::EventBook>(folder_);
  models = std::make_unique<workers::Models>(
      std::vector<workers::ServedModel>{
          {.name = "sprites", .path = fs::path(TACHY_SOURCE_DIR) / "models/sprites", .since = 1'700'000'000}},
      EngineOptions{.threads = 1});
  service = std::unique_ptr<Service>(
      new Service{*table, *book, runs, {.models = *models, .spool = folder_ / "spool"}, folder_});
  service->ending = &ending;
  service->offers.presets = [this](const std::string& owner) { return table->presets(owner); };
  service->link_secret = "a secret of tests";
  add_routes(router, *service);
}

Answer ApiTest::call(const std::string& method, const std::string& target, const json& body,
                     const http::Pairs& headers, const http::Caller& caller) {
  http::Request request;
  request.method = method;
  split_query(target, request);
  request.headers = headers;
  request.caller = caller;
  request.loopback = true;
  if (!body.is_null()) {
    request.body_kind = http::Request::Body::text;
    request.headers.emplace_back("Content-Type", "application/json");
    request.body = body.is_string() ? body.get<std::string>() : json_line(body);
  }
  return send(std::move(request));
}

Answer ApiTest::send(http::Request request) {
  const http::Router::Found found = router.find(request.method, request.path);
  Answer answer;
  if (!found.route) {
    answer.reply = error_reply(found.other_methods.empty() ? 404 : 405);
  } else {
    request.captures = found.captures;
    try {
      answer.reply = found.route->handler(request);
    } catch (const std::exception& e) {
      answer.reply = error_reply(e);
    }
    // Whatever is answered from memory is what the handler answers.
    if (found.route->at_once)
      if (const auto known = found.route->at_once(request)) {
        EXPECT_EQ(known->status, answer.reply.status);
        EXPECT_EQ(known->headers, answer.reply.headers);
        EXPECT_EQ(parsed_or_discarded(std::get<std::string>(known->body)),
                  parsed_or_discarded(std::get<std::string>(answer.reply.body)));
      }
  }
  answer.status = answer.reply.status;
  if (const auto* text = std::get_if<std::string>(&answer.reply.body))
    answer.body = parsed_or_discarded(*text);
  return answer;
}

std::optional<http::Reply> ApiTest::at_once(const std::string& target, const http::Caller& caller) {
  const http::Router::Found found = router.find("GET", target);
  http::Request request;
  request.captures = found.captures, request.caller = caller;
  return found.route->at_once ? found.route->at_once(request) : std::nullopt;
}

Answer ApiTest::create(const json& more, const http::Pairs& headers, const http::Caller& caller) {
  json body = {{"prompt", "a red circle moves right"}};
  body.update(more);
  return call("POST", "/v1/videos", body, headers, caller);
}

std::string ApiTest::created(const json& more, const http::Caller& caller) {
  const Answer answer = create(more, {}, caller);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.status == 200 ? answer.body.at("id") : "";
}

void ApiTest::begin(const std::string& id) { ASSERT_TRUE(table->claim(id, "worker")); }

void ApiTest::complete(const std::string& id, json facts) {
  begin(id);
  std::ofstream(folder_of(id).video()) << "not really a video";
  queue::JobRow row = *table->find(id);
  row.status = queue::Status::completed;
  row.ended_ms = row.created_ms + 5000;
  json all = parse_json_line(row.facts);
  all.update(facts);
  row.facts = json_line(all);
  ASSERT_TRUE(table->end(row, "worker", std::nullopt));
}

void ApiTest::fail_job(const std::string& id, const std::string& code) {
  begin(id);
  queue::JobRow row = *table->find(id);
  row.status = queue::Status::failed;
  row.ended_ms = row.created_ms + 5000;
  row.error = {code, "it did not work"};
  ASSERT_TRUE(table->end(row, "worker", std::nullopt));
}

size_t ApiTest::folders() const {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder_ / "jobs"), fs::directory_iterator()));
}

http::Part ApiTest::file_part(const std::string& name, const std::string& filename,
                              const std::string& bytes) const {
  auto file = std::make_shared<http::SpooledFile>(folder_ / "spool" / ("part-" + filename), filename, "");
  std::ofstream(file->path(), std::ios::binary) << bytes;
  file->bytes = bytes.size();
  Sha256 hash;
  hash.add(bytes);
  file->sha256 = hash.hex();
  return {name, "", file};
}

}  // namespace tachy::web_api
