// What the benches of ops and of models share: a line of the report, judged by the roofline.
#pragma once

#include <string>
#include <vector>

#include "inspect/bench.h"
#include "inspect/say.h"

namespace tachy {

// The line's share of what the machine could do at most, and what limits it there.
void judge(BenchLine& line, double bytes, double flops, bool bf16, const cpu::Roofline& roofline);
void judge(BenchLine& line, double bytes, double flops, const BenchGpu& gpu);

// The median and spread of so many times; judged where flops are given.
BenchLine line_of(const std::string& id, std::vector<double> times_us);
BenchLine line_of(const std::string& id, std::vector<double> times_us, double flops, bool bf16,
                  const cpu::Roofline& roofline);

// A model's own stages (bench_model.cpp), appended to the report.
void bench_model(const BenchOptions& options, BenchReport& report);
void bench_model_on_gpu(const BenchOptions& options, BenchReport& report);

}  // namespace tachy
