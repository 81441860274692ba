// What the benches of ops and of models share: a line of the report, judged by the roofline.
#pragma once

#include <string>
#include <vector>

#include "inspect/bench.h"
#include "inspect/say.h"
#include "worlds/world_config.h"

namespace tachy {

// The line's share of what the machine could do at most, and what limits it there.
void judge(BenchLine& line, double bytes, double flops, bool bf16, const cpu::Roofline& roofline);
void judge(BenchLine& line, double bytes, double flops, const BenchGpu& gpu);

void check_line(const BenchLine& line, const std::string& name);  // of a stored report; throws corrupt

// The median and spread of so many times; judged where flops are given.
BenchLine line_of(const std::string& id, std::vector<double> times_us);
BenchLine line_of(const std::string& id, std::vector<double> times_us, double flops, bool bf16,
                  const cpu::Roofline& roofline);
// A line of blocks; block_us: a block's mean time, of which it has a share, or 0.
BenchLine line_of_blocks(const std::string& id, const std::vector<double>& times_us, double block_us);

// A model's own stages (bench_model.cpp), appended to the report.
void bench_model(const BenchOptions& options, BenchReport& report);
void bench_model_on_gpu(const BenchOptions& options, BenchReport& report);
bool times_blocks(const ModelBundle& model, const BenchOptions& options);
WorldChoices block_choices(const BenchOptions& options);
// The blocks of one that makes videos block by block (bench_world.cpp).
// free_bytes: of the GPU, before the model is there.
void bench_world(const BenchOptions& options, ModelBundle bundle, uint64_t free_bytes, BenchReport& report);

}  // namespace tachy
