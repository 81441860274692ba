#include "web_api/job_request.h"

#include "web_api/fields/request_reader.h"

namespace tachy::web_api {

JobRequest parse_job(const Fields& fields, const http::Caller& caller, const Offers& offers,
                     const nlohmann::json* base) {
  GivenFields given = given_fields(fields);
  lay_over_preset(given, caller.key, offers);
  if (base) given = laid_over(*base, std::move(given));
  return RequestReader(given, fields, caller, offers).read();
}

}  // namespace tachy::web_api
