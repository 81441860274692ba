#include "queue/job_row.h"

#include <fmt/ranges.h>

#include <sstream>

namespace tachy::queue {

const char* to_string(Status status) {
  switch (status) {
    case Status::queued:
      return "queued";
    case Status::in_progress:
      return "in_progress";
    case Status::completed:
      return "completed";
    case Status::failed:
      return "failed";
  }
  return "failed";
}

std::vector<std::string> awaited_ids(const std::string& awaits) {
  if (awaits.empty()) return {};
  std::istringstream in(awaits);
  std::vector<std::string> ids;
  for (std::string id; in >> id;) ids.push_back(id);
  return ids;
}

std::string joined_ids(const std::vector<std::string>& ids) { return fmt::format("{}", fmt::join(ids, " ")); }

}  // namespace tachy::queue
