// Carries out a plan: makes and writes each tensor a few MiB at a time, with all threads.
#pragma once

#include <functional>

#include "convert/convert_plan.h"
#include "weights/output_file.h"

namespace tachy {

class ConvertRun {
 public:
  ConvertRun(const ConvertPlan& plan, const ConvertOptions& options);
  ~ConvertRun();

  // Throws cancelled, io, or numerical for values that the stored form cannot represent.
  void write(const ConvertFile& file, OutputFile& out);
  void check_cancelled() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy
