// Counts and measures what a server does; Prometheus reads it from /metrics.
//
// A series is kept for each value of the labels, for ever. So labels have few values: routes are the patterns
// of the router, and of models with sizes the first kMostShapes are told apart; the others are counted
// together as "other".
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "queue/job_row.h"

namespace tachy::workers {

class Metrics {
 public:
  static constexpr size_t kMostShapes = 48, kMostWords = 24;

  Metrics();
  ~Metrics();

  // Takes an event of ForemanOptions::measured; one that it does not know changes nothing.
  //   {"event": "step", "model", "size", "stage", "seconds"}    a step of denoise, a latent frame of decode, or the
  //   whole file of encode
  //   {"event": "run", "model", "size", "wait_seconds", "seconds", "planned_seconds", "planned_bytes",
  //   "seen_bytes"}    seen_bytes only of a run that was alone
  //   {"event": "end", "model", "size", "status", "code", "cause"}    cause: of a cancel
  //   {"event": "interrupted", "cause"}
  void measured(const nlohmann::json& event);
  // Takes an answer of the HTTP server (ServerOptions::answered): the route's pattern, or "" where there is
  // none.
  void answered(std::string_view pattern, std::string_view method, int status);

  // Returns everything in Prometheus's text format, version 0.0.4.
  // `hosts` are those that share the queue, if there are others.
  std::string text(const queue::Counts& counts, const std::vector<queue::HostRow>& hosts = {});
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy::workers
