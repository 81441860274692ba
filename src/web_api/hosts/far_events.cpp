#include "web_api/hosts/far_events.h"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "web_api/api_error.h"
#include "web_api/curl.h"

namespace tachy::web_api {
namespace {

constexpr int kMostStreams = 64;  // each has a thread
constexpr size_t kMostUnread = 4 << 20;
constexpr int kMostSilence = 45;  // seconds; a host sends a comment every 15 (http::ServerLimits)

constexpr std::chrono::milliseconds kPatience{2000};

std::atomic<int> g_streams{0};

// Belongs to the reading thread and to the feed; whichever ends last frees it, so that neither waits for the other.
struct Stream {
  std::mutex mutex;
  std::string unread;
  std::function<void()> wake;
  bool ended = false;
  std::atomic<bool> cancel{false};

  // Calls without the lock: whoever is woken may drop the feed.
  void tell() {
    std::function<void()> call;
    {
      const std::lock_guard lock(mutex);
      call = wake;
    }
    if (call) call();
  }
  bool take(std::string_view text) {
    {
      const std::lock_guard lock(mutex);
      if (unread.size() + text.size() > kMostUnread) return false;  // nobody reads it
      unread += text;
    }
    tell();
    return true;
  }
  void end() {
    {
      const std::lock_guard lock(mutex);
      ended = true;
    }
    tell();
  }
};

std::mutex g_open_mutex;
std::set<Stream*> g_open;

void run_stream(const std::shared_ptr<Stream>& stream, const std::function<void(const FarSink&)>& fill) {
  {
    const std::lock_guard lock(g_open_mutex);
    g_open.insert(stream.get());
  }
  try {
    fill({[&](std::string_view text) { return stream->take(text); }, stream->cancel});
  } catch (const std::exception&) {  // the stream ends, and its reader asks again
  }
  {
    const std::lock_guard lock(g_open_mutex);
    g_open.erase(stream.get());
  }
  stream->end();
  --g_streams;
}

// Hands out whole events alone: a piece may end anywhere.
class FarFeed final : public http::EventFeed {
 public:
  explicit FarFeed(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~FarFeed() override { stream_->cancel = true; }

  std::optional<std::string> next() override {
    const std::lock_guard lock(stream_->mutex);
    const size_t end = stream_->unread.rfind("\n\n");
    if (end == std::string::npos) return std::nullopt;
    std::string text = stream_->unread.substr(0, end + 2);
    stream_->unread.erase(0, end + 2);
    return text;
  }
  bool ended() const override {
    const std::lock_guard lock(stream_->mutex);
    return stream_->ended && stream_->unread.find("\n\n") == std::string::npos;
  }
  void on_news(std::function<void()> wake) override {
    const std::lock_guard lock(stream_->mutex);
    stream_->wake = std::move(wake);
  }

 private:
  std::shared_ptr<Stream> stream_;
};

}  // namespace

std::shared_ptr<http::EventFeed> far_events(std::function<void(const FarSink& sink)> fill) {
  auto stream = std::make_shared<Stream>();
  if (++g_streams > kMostStreams) {
    --g_streams;
    ApiError error("not_available", "too many streams of other hosts are open; try again later");
    error.headers = {{"Retry-After", "10"}};
    throw error;
  }
  try {
    std::thread(run_stream, stream, std::move(fill)).detach();
  } catch (const std::system_error&) {
    --g_streams;
    throw;
  }
  return std::make_shared<FarFeed>(std::move(stream));
}

void Told::note(std::string_view events) {
  constexpr std::string_view kNumber = "id: ";
  for (size_t end; (end = events.find('\n')) != events.npos; events.remove_prefix(end + 1)) {
    const std::string_view line = events.substr(0, end);
    if (line.starts_with(kNumber))
      std::from_chars(line.data() + kNumber.size(), line.data() + line.size(), number);
    over |= line == "event: done" || line == "event: failed";
  }
}

bool read_far_events(const std::string& url, std::vector<std::string> headers, const FarSink& sink,
                     Told& told) {
  headers.push_back(fmt::format("Last-Event-ID: {}", told.number));
  HttpCall call{.url = url, .body = {}, .headers = std::move(headers), .connect_seconds = 3, .seconds = 0};
  call.silent_seconds = kMostSilence, call.most_bytes = UINT64_MAX >> 1, call.cancel = &sink.cancel;
  std::string begun;  // an event whose end has not come
  bool read = true;
  call.take = [&](std::string_view bytes) {
    begun += bytes;
    const size_t end = begun.rfind("\n\n");
    if (end == begun.npos) return begun.size() < kMostUnread;
    const std::string whole = begun.substr(0, end + 2);
    begun.erase(0, end + 2);
    read = sink.take(whole);
    told.note(whole);
    return read;
  };
  try {
    http_call(call);
  } catch (const Error&) {  // the host has gone away, or the reader has
  }
  return read;
}

void end_far_events() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (g_streams > 0 && std::chrono::steady_clock::now() < until) {
    {
      const std::lock_guard lock(g_open_mutex);
      for (Stream* stream : g_open) stream->cancel = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace tachy::web_api
