// Tells an address about the end of each job. Messages are signed as Standard Webhooks has it, which the openai client's
// `webhooks.unwrap` verifies:
//   webhook-id: msg_…   webhook-timestamp: seconds   webhook-signature: v1,base64(HMAC-SHA256(secret, id.timestamp.body))
//
// The message is in the table from the same transaction on that ends the job, and stays there until somebody has taken
// it, so a restart loses none. A message may come twice, under the same id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "queue/job_table.h"

namespace tachy::web_api {

// Reads the bytes of the secret from a file that holds "whsec_" and base64. Throws not_found, io, and invalid_argument
// if it is something else or others may read it.
std::string read_webhook_secret(const std::filesystem::path& file);

// Returns the value of webhook-signature.
std::string webhook_signature(std::string_view secret, std::string_view id, int64_t timestamp_s,
                              std::string_view body);

// Returns the message about a job that has ended, to be sent at once; nothing for one that has not.
std::optional<queue::Webhook> end_of_job(const queue::JobRow& row);

struct WebhookOptions {
  std::string url;      // http or https
  std::string secret;   // its bytes
  double seconds = 15;  // for one attempt
  // The pauses after failed attempts, in seconds; after the last one the message is given up.
  std::vector<double> pauses = {5, 30, 120, 600, 1800, 7200, 18'000, 36'000, 86'400, 86'400};
  double look_seconds = 1;  // how often the table is looked at
};

// Throws invalid_argument if the address is not one of http or https, and unsupported without libcurl.
void check_webhook_url(const std::string& url);

class Webhooks {
 public:
  // Begins to send, in a thread of its own.
  Webhooks(WebhookOptions options, queue::JobTable& table);
  ~Webhooks();  // ends an attempt that is under way; its message stays in the table

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy::web_api
