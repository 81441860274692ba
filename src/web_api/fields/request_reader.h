// Reads the given fields of a request into a job, one kind after the other. Private to src/web_api.
#pragma once

#include <memory>

#include "web_api/fields/given_fields.h"
#include "web_api/job_request.h"

namespace tachy::web_api {

class RequestReader {
 public:
  RequestReader(const GivenFields& given, const Fields& fields, const http::Caller& caller,
                const Offers& offers)
      : given_(given), fields_(fields), caller_(caller), offers_(offers) {}
  JobRequest read();

 private:
  void take_model();
  void take_settings();
  void take_size();
  void take_length();
  void take_seed();
  void take_adapters();
  void take_encoding();
  void take_priority();
  void name_content();

  VideoRequest& request() { return out_.job.settings.request; }
  const VideoRequest& defaults();  // of the model

  const GivenFields& given_;
  const Fields& fields_;
  const http::Caller& caller_;
  const Offers& offers_;
  std::shared_ptr<Engine> engine_;
  JobRequest out_;
};

}  // namespace tachy::web_api
