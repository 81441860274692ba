#include "web_api/webhooks.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/base64.h"
#include "base/error.h"
#include "base/hmac.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/random_bytes.h"
#include "base/text_file.h"
#include "web_api/curl.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

int64_t milliseconds_now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string read_webhook_secret(const fs::path& file) {
  std::string text = read_text_file(file, 4096);
  std::error_code error;
  const fs::perms mode = fs::status(file, error).permissions();
  require(error || (mode & (fs::perms::group_all | fs::perms::others_all)) == fs::perms::none,
          "{}: others may read this secret; take that right away (chmod 600)", file.string());
  while (text.ends_with("\n") || text.ends_with(" ")) text.pop_back();
  constexpr std::string_view kBegin = "whsec_";
  require(text.starts_with(kBegin), "{}: expected whsec_ and the secret as base64", file.string());
  const std::optional<std::string> secret = from_base64(std::string_view(text).substr(kBegin.size()));
  require(secret.has_value(), "{}: what follows whsec_ is not base64", file.string());
  require(secret->size() >= 16 && secret->size() <= 1024,
          "{}: expected a secret of 16 to 1024 bytes, got {}; 24 to 64 are usual", file.string(),
          secret->size());
  return *secret;
}

std::string webhook_signature(std::string_view secret, std::string_view id, int64_t timestamp_s,
                              std::string_view body) {
  return "v1," + to_base64(bytes_of(hmac_sha256(secret, fmt::format("{}.{}.{}", id, timestamp_s, body))));
}

std::optional<queue::Webhook> end_of_job(const queue::JobRow& row) {
  const bool completed = row.status == queue::Status::completed;
  if (!completed && row.status != queue::Status::failed) return std::nullopt;
  const int64_t now = row.ended_ms > 0 ? row.ended_ms : milliseconds_now();
  queue::Webhook out{.id = "msg_" + random_hex(32), .job = row.id, .due_ms = now};
  out.type = completed ? "video.completed" : "video.failed";
  nlohmann::json data = {{"id", row.id}};
  if (!completed) data["error"] = {{"code", row.error.code}, {"message", row.error.message}};
  out.body = json_line({{"id", "evt_" + random_hex(32)},
                        {"object", "event"},
                        {"created_at", now / 1000},
                        {"type", out.type},
                        {"data", data}});
  return out;
}

void check_webhook_url(const std::string& url) {
  need_curl();
  const auto parts = url_parts(url);
  require(parts && (parts->scheme == "http" || parts->scheme == "https"),
          "`webhook`: expected an address of http or https, got '{}'", url);
}

struct Webhooks::State {
  WebhookOptions options;
  queue::JobTable& table;
  std::atomic<bool> ending{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::thread thread;

  void wait(double seconds) {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return ending.load(); });
  }

  // Returns whether the receiver has answered at all.
  bool send(const queue::Webhook& message) {
    const int64_t now_s = table.now_ms() / 1000;  // a receiver refuses a message whose time is minutes off
    HttpCall call{.url = options.url, .body = message.body, .seconds = options.seconds};
    call.headers = {
        "Content-Type: application/json", "webhook-id: " + message.id,
        fmt::format("webhook-timestamp: {}", now_s),
        "webhook-signature: " + webhook_signature(options.secret, message.id, now_s, message.body),
        "Expect:"};  // without the pause for "100 Continue"
    call.cancel = &ending;
    std::string reason;
    int status = 0;
    try {
      status = http_call(call).status;
      reason = fmt::format("it answers {}", status);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled) return true;
      reason = e.message();
    }
    const bool gone = status == 410;  // it wants no more of them
    if ((status >= 200 && status < 300) || gone) return table.webhook_sent(message.id), true;
    const size_t tries = static_cast<size_t>(std::max(0, message.attempts));
    warn("the webhook's receiver has not taken a message ({}); it is sent again later", reason);
    if (tries >= options.pauses.size()) {
      warn("a webhook's message was given up after {} attempts", tries + 1);
      return table.webhook_sent(message.id), status != 0;
    }
    table.webhook_later(message.id, table.now_ms() + static_cast<int64_t>(options.pauses[tries] * 1000));
    return status != 0;
  }

  void run() {
    while (!ending) {
      double pause = options.look_seconds;
      try {
        for (const queue::Webhook& message : table.due_webhooks(table.now_ms(), 20)) {
          if (ending) break;
          // A receiver that does not answer now will hardly answer to the next message.
          if (!send(message)) break;
        }
      } catch (const Error& e) {
        warn("webhooks: {}", e.message());
        pause = 5 * options.look_seconds;
      }
      wait(pause);
    }
  }
};

Webhooks::Webhooks(WebhookOptions options, queue::JobTable& table)
    : state_(new State{.options = std::move(options), .table = table}) {
  check_webhook_url(state_->options.url);
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Webhooks::~Webhooks() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

}  // namespace tachy::web_api
