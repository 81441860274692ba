// Shared parts of the benches of ops and of models: a line of the report, judged by the roofline.
#pragma once

#include <string>
#include <vector>

#include "inspect/bench.h"
#include "inspect/say.h"
#include "worlds/world_config.h"

namespace tachy {

// Sets a line's share of the machine's limit, and which limit it is.
void judge(BenchLine& line, double bytes, double flops, bool bf16, const cpu::Roofline& roofline);
void judge(BenchLine& line, double bytes, double flops, const BenchGpu& gpu);

// Checks a line of a stored report; throws corrupt.
void check_line(const BenchLine& line, const std::string& name);

// Makes a line of the median and the spread of these times. If flops are given, judges it by the roofline.
BenchLine line_of(const std::string& id, std::vector<double> times_us);
BenchLine line_of(const std::string& id, std::vector<double> times_us, double flops, bool bf16,
                  const cpu::Roofline& roofline);
// Makes a line for blocks. `block_us` is a block's mean time, of which the line gets a share, or 0.
BenchLine line_of_blocks(const std::string& id, const std::vector<double>& times_us, double block_us);

// Times a model's own stages (bench_model.cpp) and appends them to the report.
void bench_model(const BenchOptions& options, BenchReport& report);
void bench_model_on_gpu(const BenchOptions& options, BenchReport& report);
bool times_blocks(const ModelBundle& model, const BenchOptions& options);
WorldChoices block_choices(const BenchOptions& options);
// Times the blocks of a model that makes videos block by block (bench_world.cpp). free_bytes is the free
// memory of the GPU before the model is loaded.
void bench_world(const BenchOptions& options, ModelBundle bundle, uint64_t free_bytes, BenchReport& report);

}  // namespace tachy
