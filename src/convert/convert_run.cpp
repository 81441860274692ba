#include "convert/convert_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/thread_pool.h"
#include "weights/entry_values.h"
#include "weights/gguf/gguf_encode.h"
#include "weights/quantized/scaled_encode.h"
#include "weights/quote.h"

namespace tachy {
namespace {

constexpr int64_t kTileValues = 1 << 18, kTileBytes = 4 << 20;
constexpr int64_t kTilesAtOnce = 32;  // tiles between two reports of progress
constexpr double kLargestHalf = 65504;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

const std::byte* stored_at(const TensorSource::Entry& entry) {
  return static_cast<const std::byte*>(entry.data);
}

}  // namespace

struct ConvertRun::State {
  State(const ConvertPlan& plan, const ConvertOptions& o)
      : options(o), pool(o.threads > 0 ? o.threads : available_processors()) {
    for (const ConvertFile& file : plan.files) total += file.layout.bytes;
  }

  const ConvertOptions& options;
  ThreadPool pool;
  uint64_t total = 0, done = 0;
  Clock::time_point begin = Clock::now();
  double said = 0;

  void report(bool last) {
    const double now = seconds_since(begin);
    if (!options.progress || (!last && now - said < 0.1)) return;
    said = now;
    const auto share = static_cast<double>(done) / static_cast<double>(std::max<uint64_t>(total, 1));
    options.progress({.stage = "convert",
                      .done = static_cast<int64_t>((last ? total : done) / 1'000'000),
                      .total = static_cast<int64_t>(total / 1'000'000),
                      .elapsed_seconds = now,
                      .eta_seconds = share > 0 && now > 1 ? now / share - now : -1});
  }

  void check_cancelled() const {
    check(!options.cancel || !options.cancel->load(), ErrorCode::cancelled, "cancelled");
  }

  // Calls body(first, count) for [0, total) in pieces of `step`.
  template <class Body>
  void pieces(int64_t all, int64_t step, uint64_t bytes_of_all, Body&& body) {
    const int64_t tiles = (all + step - 1) / step;
    const uint64_t before = done;
    for (int64_t at = 0; at < tiles; at += kTilesAtOnce) {
      const int64_t n = std::min(kTilesAtOnce, tiles - at);
      pool.run(n, [&](int64_t tile, int) {
        check_cancelled();
        const int64_t first = (at + tile) * step;
        body(first, std::min(step, all - first));
      });
      done = before + static_cast<uint64_t>(static_cast<double>(bytes_of_all) * static_cast<double>(at + n) /
                                            static_cast<double>(tiles));
      report(false);
    }
  }
};

namespace {

std::vector<float> values_at(const TensorSource::Entry& entry, int64_t first, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  entry_values(entry, first, values);
  return values;
}

void check_holds(const TensorSource::Entry& entry, float largest, double most, std::string_view what) {
  check(largest <= most, ErrorCode::numerical, "tensor {} holds {}, which {} cannot hold",
        in_quotes(entry.name_in_file), std::isfinite(largest) ? fmt::format("{:g}", largest) : "NaN or Inf",
        what);
}

// Returns the largest value that the stored tensor can represent; infinity if its type holds any float.
double largest_of(const StoredTensor& tensor) {
  if (tensor.type) return tensor.type->name == "f32" || tensor.type->name == "bf16" ? INFINITY : kLargestHalf;
  return tensor.dtype == DType::f16 ? kLargestHalf : INFINITY;
}

class TensorJob {
 public:
  TensorJob(const ConvertFile& file, const ConvertJob& job, OutputFile& out)
      : job_(job),
        entry_(job.entry),
        tensor_(file.tensors[job.tensor]),
        begin_(file.layout.begins[job.tensor]),
        scale_begin_(file.layout.begins[job.scale]),
        out_(out) {}

  template <class Pieces>
  void run(Pieces&& pieces) {
    const int64_t count = value_count(entry_);
    switch (job_.making) {
      case Making::copy:
        return pieces(static_cast<int64_t>(tensor_.bytes()), kTileBytes,
                      [&](int64_t at, int64_t bytes) { copy(at, bytes); });
      case Making::values:
        return pieces(count, kTileValues, [&](int64_t first, int64_t n) { round(first, n); });
      case Making::e4m3: {
        std::vector<float> largest(static_cast<size_t>(count / kTileValues + 1));
        pieces(count, kTileValues, [&](int64_t first, int64_t n) {
          largest[static_cast<size_t>(first / kTileValues)] = checked_largest(values_at(entry_, first, n));
        });
        const float scale = e4m3_scale(*std::max_element(largest.begin(), largest.end()));
        out_.write_at(scale_begin_, &scale, sizeof scale);
        return pieces(count, kTileValues, [&](int64_t first, int64_t n) { scaled(first, n, scale); });
      }
      case Making::int8: {
        const int64_t width = count / std::max<int64_t>(entry_.dims[0], 1);
        const int64_t step = std::max<int64_t>(kTileValues / std::max<int64_t>(width, 1), 1);
        return pieces(entry_.dims[0], step, [&](int64_t row, int64_t n) { rows(row, n, width); });
      }
    }
  }

 private:
  float checked_largest(std::span<const float> values) const {
    const float largest = largest_magnitude(values);
    check_holds(entry_, largest, 3e38, "the 8-bit form");
    return largest;
  }

  void put(int64_t offset, const void* data, size_t bytes) {
    out_.write_at(begin_ + static_cast<uint64_t>(offset), data, bytes);
  }

  void copy(int64_t at, int64_t bytes) {
    std::vector<std::byte> buffer(static_cast<size_t>(bytes));
    copy_from_file(buffer.data(), stored_at(entry_) + at, buffer.size());
    put(at, buffer.data(), buffer.size());
  }

  void round(int64_t first, int64_t count) {
    const std::vector<float> values = values_at(entry_, first, count);
    if (const double most = largest_of(tensor_); most < INFINITY)
      check_holds(entry_, largest_magnitude(values), most,
                  tensor_.type ? tensor_.type->name : dtype_name(tensor_.dtype));
    if (!tensor_.type) {
      const int64_t size = dtype_size(tensor_.dtype);
      std::vector<float> stored(values.size());  // is aligned and large enough for any type
      store_values(values.data(), count, tensor_.dtype, stored.data());
      return put(first * size, stored.data(), static_cast<size_t>(count * size));
    }
    const int64_t blocks = count / tensor_.type->block_values, size = tensor_.type->block_bytes;
    std::vector<std::byte> stored(static_cast<size_t>(blocks * size));
    gguf_encoder (*tensor_.type)(values.data(), blocks, stored.data());
    put(first / tensor_.type->block_values * size, stored.data(), stored.size());
  }

  void scaled(int64_t first, int64_t count, float scale) {
    std::vector<uint8_t> codes(static_cast<size_t>(count));
    encode_e4m3(values_at(entry_, first, count), scale, codes.data());
    put(first, codes.data(), codes.size());
  }

  void rows(int64_t row, int64_t count, int64_t width) {
    const std::vector<float> values = values_at(entry_, row * width, count * width);
    std::vector<int8_t> codes(values.size());
    std::vector<float> scales(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const std::span<const float> one(values.data() + i * width, static_cast<size_t>(width));
      scales[static_cast<size_t>(i)] = int8_scale(checked_largest(one));
      encode_int8(one, scales[static_cast<size_t>(i)], codes.data() + i * width);
    }
    put(row * width, codes.data(), codes.size());
    out_.write_at(scale_begin_ + static_cast<uint64_t>(row) * sizeof(float), scales.data(),
                  scales.size() * sizeof(float));
  }

  const ConvertJob& job_;
  const TensorSource::Entry& entry_;
  const StoredTensor& tensor_;
  uint64_t begin_, scale_begin_;
  OutputFile& out_;
};

}  // namespace

ConvertRun::ConvertRun(const ConvertPlan& plan, const ConvertOptions& options)
    : state_(std::make_unique<State>(plan, options)) {}
ConvertRun::~ConvertRun() = default;

void ConvertRun::check_cancelled() const { state_->check_cancelled(); }

void ConvertRun::write(const ConvertFile& file, OutputFile& out) {
  State& s = *state_;
  const uint64_t before = s.done;
  out.write_at(0, file.layout.header.data(), file.layout.header.size());
  for (const ConvertJob& job : file.jobs) {
    const uint64_t bytes = file.tensors[job.tensor].bytes() / (job.making == Making::e4m3 ? 2 : 1);
    TensorJob(file, job, out).run([&](int64_t all, int64_t step, auto&& body) {
      s.pieces(all, step, bytes, body);
    });
  }
  out.commit(file.layout.bytes, s.options.overwrite);
  s.done = before + file.layout.bytes;
  s.report(s.done == s.total);
}

}  // namespace tachy
