// One address of the interface: who answers it, and what /openapi.json says of it. The table of all of them
// (all_endpoints) makes both the routes and the description, so that neither can lack what the other has.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "http/router.h"
#include "web_api/service.h"

namespace tachy::web_api {

// A value in the query or in a header.
struct Parameter {
  const char* name;
  const char* in;         // "query" or "header"
  nlohmann::json schema;  // JSON schema of its value
  const char* means;
};

struct Endpoint {
  const char* method;
  const char* pattern;
  const char* id;     // the operation's name in the description: "createVideo"
  const char* means;  // what it does, in a sentence
  http::Reply (*answer)(Service&, http::Request&);
  // Answers from memory in the sockets' thread where that is possible (http::Route::at_once); may be null.
  std::optional<http::Reply> (*at_once)(Service&, http::Request&) = nullptr;
  const char* reply = "Video";   // the schema of the answer's JSON, or a media type ("video/mp4")
  std::vector<int> errors = {};  // statuses beside those that every address of its kind may answer with
  const char* body = nullptr;    // the schema of the body, or null: it takes none
  bool form = false;             // the body may also be multipart/form-data
  http::Lane lane = http::Lane::quick;
  bool open = false;  // answers without a key
  std::vector<Parameter> parameters = {};
};
using Endpoints = std::vector<Endpoint>;

// Each file of endpoints adds its own.
void add_create_endpoints(Endpoints& to);   // create, plan
void add_vary_endpoints(Endpoints& to);     // remix, edits, extensions, characters
void add_join_endpoint(Endpoints& to);      // several videos become one
void add_video_endpoints(Endpoints& to);    // retrieve, list, delete
void add_change_endpoints(Endpoints& to);   // cancel, pause, continue, change
void add_content_endpoints(Endpoints& to);  // the files, and links to them
void add_event_endpoints(Endpoints& to);    // the event stream and its previews
void add_preset_endpoints(Endpoints& to);   // saved presets
void add_offer_endpoints(Endpoints& to);    // models and LoRAs
void add_key_endpoints(Endpoints& to);      // who the caller is, who has keys
void add_ticket_endpoint(Endpoints& to);    // for the socket of a world
void add_server_endpoints(Endpoints& to);   // health, readiness, metrics, the description
Endpoints all_endpoints();

// The description of the interface, as OpenAPI 3.1 (openapi.cpp).
nlohmann::json describe(const Endpoints& endpoints);
nlohmann::json description_schemas();  // its components (openapi_schemas.cpp)

}  // namespace tachy::web_api
