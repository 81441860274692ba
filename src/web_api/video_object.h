// A job as the interface shows it: the Video object of the openai client, with fields of our own beside it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "http/message.h"
#include "web_api/service.h"

namespace tachy::web_api {

using queue::kMadeFrom;

// The facts about a file before it is made, or about the one that was made: JobRow::facts.
nlohmann::json expected_facts(const VideoRequest& request);

nlohmann::json video_object(const queue::JobRow& row, const workers::Live& live);
// Returns those fields of the object that depend on `live`. All others must follow from the row (video_texts.h).
nlohmann::json live_fields(const queue::JobRow& row, const workers::Live& live);

// How long a client should wait before it asks again: a twentieth of what is left, within 500 and 5,000 ms. The
// openai client keeps the first value that it gets, so the value may not grow with the queue.
int poll_after_ms(const queue::JobRow& row, const workers::Live& live);

// Returns the object as a reply, with openai-poll-after-ms while the job has not ended.
http::Reply video_reply(Service& service, const queue::JobRow& row);
http::Reply video_reply(const queue::JobRow& row, const workers::Live& live, std::string text);

// A text that changes with the fields of a video. PATCH takes it as If-Match, so that of two callers who change the
// same video at once the second one is told.
std::string revision_of(const queue::JobRow& row);

// Returns the stored JSON object, or an empty one if the text is none.
nlohmann::json stored_object(const std::string& text);

}  // namespace tachy::web_api
