#include "queue/job_row.h"

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

}  // namespace tachy::queue
