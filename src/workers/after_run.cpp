#include "workers/after_run.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/disk.h"
#include "base/error.h"
#include "base/json_text.h"
#if __has_include("workers/derived_files.h")
#include "workers/derived_files.h"
#define TACHY_DERIVED_FILES
#endif

namespace tachy::workers {

using nlohmann::json;

void make_thumbnail_if_possible([[maybe_unused]] const queue::JobFolder& folder,
                                const std::function<void(const std::string&)>& say) try {
#ifdef TACHY_DERIVED_FILES
  make_thumbnail(folder);
#endif
} catch (const std::exception& e) {
  say(std::string("there is no thumbnail: ") + e.what());
}

void join_job(queue::JobRow& row, const queue::JobFolder&, const std::atomic<bool>*) {
  fail(ErrorCode::unsupported, "{}: videos cannot be joined yet", row.id);
}

int last_preview_of(const queue::JobFolder& folder) {
  constexpr std::string_view kBegin = "preview-", kEnd = ".jpg";
  int last = 0;
  std::error_code ec;
  for (const auto& path : list_folder(folder.path, ec)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) continue;
    int number = 0;
    std::from_chars(name.data() + kBegin.size(), name.data() + name.size() - kEnd.size(), number);
    last = std::max(last, number);
  }
  return last;
}

queue::JobError cancelled_error() { return {"cancelled", "the job was cancelled"}; }

void tell_end(queue::EventBook& book, const queue::JobRow& row) {
  if (row.status == queue::Status::completed) {
    json data = {{"progress", 100}};
    const json facts = parsed_or_discarded(row.facts);
    if (facts.is_object()) data.update(facts);
    book.add(row.id, "done", data);
  } else {
    book.add(row.id, "failed", {{"error", {{"code", row.error.code}, {"message", row.error.message}}}});
  }
}

}  // namespace tachy::workers
