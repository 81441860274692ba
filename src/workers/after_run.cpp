#include "workers/after_run.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/disk.h"
#include "base/error.h"
#include "base/json_text.h"
#include "media/video/video_reader.h"
#include "workers/derived_files.h"
#include "workers/join_job.h"

namespace tachy::workers {

using nlohmann::json;

namespace {

std::vector<int> numbers_of_previews(const queue::JobFolder& folder) {
  constexpr std::string_view kBegin = "preview-", kEnd = ".jpg";
  std::vector<int> numbers;
  std::error_code ec;
  for (const auto& path : list_folder(folder.path, ec)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) continue;
    int number = 0;
    std::from_chars(name.data() + kBegin.size(), name.data() + name.size() - kEnd.size(), number);
    if (number > 0) numbers.push_back(number);
  }
  return numbers;
}

// Reads a part of a join as the row has it: the name of an input, or {"file": name, "first_frame", "last_frame"}.
JoinPart part_of(const json& part, const std::string& id, const queue::JobFolder& folder) {
  const json name = part.is_object() ? part.value("file", json()) : part;
  const std::filesystem::path file = name.is_string() ? name.get<std::string>() : "";
  check(!file.empty() && file == file.filename(), ErrorCode::corrupt, "{}: {} is not the name of a file", id,
        json_line(part));
  JoinPart out{folder.inputs() / file};
  if (part.is_object()) {
    out.first_frame = part.value("first_frame", out.first_frame);
    out.last_frame = part.value("last_frame", out.last_frame);
  }
  return out;
}

}  // namespace

void make_thumbnail_if_possible(const queue::JobFolder& folder,
                                const std::function<void(const std::string&)>& say) try {
  make_thumbnail(folder);
} catch (const std::exception& e) {
  say(std::string("there is no thumbnail: ") + e.what());
}

void join_job(queue::JobRow& row, const queue::JobFolder& folder, const std::atomic<bool>* cancel) {
  const json settings = parse_json_text(row.settings, row.id);
  const auto parts = settings.find("join");
  check(parts != settings.end() && parts->is_array(), ErrorCode::corrupt, "{}: there is nothing to join",
        row.id);
  std::vector<JoinPart> inputs;
  for (const json& part : *parts) inputs.push_back(part_of(part, row.id, folder));
  const JoinedVideo joined = join_videos(inputs, folder.video(), cancel);
  const VideoInfo info = VideoReader::open(folder.video())->info();
  row.facts = json_line({{"size", fmt::format("{}x{}", info.width, info.height)},
                         {"width", info.width},
                         {"height", info.height},
                         {"frames", joined.frames},
                         {"fps", info.fps},
                         {"seconds", fmt::format("{:.2f}", joined.seconds)},
                         {"bytes", std::filesystem::file_size(folder.video())}});
}

int last_preview_of(const queue::JobFolder& folder) {
  const std::vector<int> numbers = numbers_of_previews(folder);
  return numbers.empty() ? 0 : *std::ranges::max_element(numbers);
}

void keep_previews(const queue::JobFolder& folder, int newest) {
  std::vector<int> numbers = numbers_of_previews(folder);
  if (std::ssize(numbers) <= newest) return;
  std::ranges::sort(numbers);
  numbers.resize(numbers.size() - static_cast<size_t>(newest));
  std::error_code ec;
  for (const int number : numbers) std::filesystem::remove(folder.preview(number), ec);
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
