// Fuzzes the way from a body to a job: JSON, or a form as it comes over the wire with the boundary "b". The first byte
// chooses, and whether the job is made from an earlier one.
#include <nlohmann/json.hpp>

#include "../fuzz_input.h"
#include "base/utf8.h"
#include "http/form.h"
#include "web_api/job_request.h"

using namespace tachy;

namespace {

http::Request request_of(std::string_view bytes, bool form, const http::Spool& spool) {
  http::Request out{.method = "POST"};
  if (!form) {
    out.body_kind = http::Request::Body::text;
    out.body = bytes;
    return out;
  }
  out.body_kind = http::Request::Body::multipart;
  http::Form reader("b", {}, spool);
  reader.push(bytes);
  out.parts = reader.finish();
  return out;
}

void check_answer(const web_api::ApiError& e) {
  const bool callers = e.status() >= 400 && e.status() < 500 && e.status() != 409;
  if (!callers || e.message.empty() || e.message.size() > 2000) std::abort();
  if (find_invalid_utf8(e.message) != kValidUtf8 || find_invalid_utf8(e.param) != kValidUtf8) std::abort();
}

void check_job(const web_api::JobRequest& job, const std::filesystem::path& spool) {
  if (job.fingerprint.size() != 64 || job.model != "wan" || job.job.settings.request.prompt.empty())
    std::abort();
  (void)job.given.dump();
  // Whatever the caller wrote, the only files of a job are those of the spool.
  for (const auto& [name, file] : job.job.settings.inputs)
    if (std::filesystem::path(file.path).parent_path() != spool) std::abort();
  if (!job.job.settings.request.loras.empty() || !job.job.output.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::Folder folder;
  static const http::Spool spool(folder.path() / "spool");
  static workers::Models models({{.name = "wan", .path = folder.path() / "no-model"}}, {.device = "cpu"});
  static const web_api::Offers offers{
      .models = models,
      .loras = {},
      .url_hosts = {},
      .spool = folder.path() / "spool",
      .presets = [](const std::string&) {
        return std::vector<queue::Preset>{{"mine", "", R"({"steps":3,"size":"8x8"})"}};
      }};
  static const nlohmann::json earlier = {
      {"prompt", "a cat"}, {"size", "64x64"}, {"num_frames", 9}, {"seed", 1}};
  if (size < 1) return 0;
  fuzz::expect_error_or_result([&] {
    try {
      const http::Request request = request_of(fuzz::view(data + 1, size - 1), data[0] % 2 == 1, spool);
      const web_api::Fields fields = web_api::fields_of(request);
      check_job(web_api::parse_job(fields, {}, offers, data[0] % 4 < 2 ? nullptr : &earlier), offers.spool);
    } catch (const web_api::ApiError& e) {
      check_answer(e);
    }
  });
  return 0;
}
