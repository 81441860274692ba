// Finds out which of cuDNN's engines and knobs is the fastest for attention's forward pass. It tries every
// configuration that its heuristics suggest (modes A, B and fallback), then the knobs of the suggested
// engines changed one at a time. Each alternates with the first one while it is timed, and its result is
// compared with the first's.
//   cudnn_engines HEADS QUERIES KEYS [rounds] [bias]      q, k, v [1, L, H, 128] bf16, random normal
// bias is row, row16 or full: a bias added to the scores, [Lk] in float32 or bf16, or [Lq, Lk] in float32.
// A knob that the library does not support for this graph fails when its plan is made and is left out.
#include <cudnn_backend.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <list>
#include <map>
#include <random>
#include <set>

#include "cuda/graph.h"
#include "cuda/vendor/cudnn.h"
#include "tensor/memory.h"

using namespace tachy;

namespace {

template <class F>
F* symbol(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  check(found != nullptr, ErrorCode::unsupported, "no {}", name);
  return reinterpret_cast<F*>(found);
}
#define BACKEND(name) symbol<decltype(cudnnBackend##name)>("cudnnBackend" #name)

struct Api {
  decltype(cudnnBackendCreateDescriptor)* create = BACKEND(CreateDescriptor);
  decltype(cudnnBackendSetAttribute)* set = BACKEND(SetAttribute);
  decltype(cudnnBackendGetAttribute)* get = BACKEND(GetAttribute);
  decltype(cudnnBackendFinalize)* finalize = BACKEND(Finalize);
  decltype(cudnnBackendExecute)* execute = BACKEND(Execute);
  cudnnHandle_t handle = nullptr;
};

void must(cudnnStatus_t status, const char* what) {
  check(status == CUDNN_STATUS_SUCCESS, ErrorCode::device, "{}: status {}", what, static_cast<int>(status));
}

using Desc = cudnnBackendDescriptor_t;
using Dims = std::array<int64_t, 4>;
using Knobs = std::map<int64_t, int64_t>;

struct Config {
  int64_t engine = -1;
  Knobs knobs;
  std::string text() const {
    std::string out = fmt::format("engine {}", engine);
    for (const auto& [type, value] : knobs) out += fmt::format(" {}={}", type, value);
    return out;
  }
};

class Lab {
 public:
  Lab(const Api& api, int64_t heads, int64_t lq, int64_t lk, const std::string& bias) : api_(api) {
    const int64_t d = 128;
    const Dims row{1, heads, lq, 1}, matrix{1, heads, lq, lk};
    const auto io = CUDNN_DATA_BFLOAT16;
    const Desc q = tensor(1, {1, heads, lq, d}, {lq * heads * d, d, heads * d, 1}, io, false);
    const Desc k = tensor(2, {1, heads, d, lk}, {lk * heads * d, d, 1, heads * d}, io, false);
    const Desc v = tensor(3, {1, heads, lk, d}, {lk * heads * d, d, heads * d, 1}, io, false);
    const Desc out = tensor(4, {1, heads, lq, d}, {lq * heads * d, d, heads * d, 1}, io, false);
    const Desc scale = tensor(5, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, false, true);
    const Desc s = between(matrix), scaled = between(matrix), less = between(matrix), e = between(matrix);
    const Desc most = between(row), total = between(row), log = between(row), lse = between(row);
    const Desc p = between(matrix, io);
    matmul(q, k, s), pointwise(CUDNN_POINTWISE_MUL, s, scale, scaled);
    Desc score = scaled;
    if (!bias.empty()) {
      const int64_t rows = bias == "full" ? lq : 1;
      const Desc add = tensor(6, {1, 1, rows, lk}, {rows * lk, rows * lk, lk, 1},
                              bias == "row16" ? io : CUDNN_DATA_FLOAT, false);
      score = between(matrix);
      pointwise(CUDNN_POINTWISE_ADD, scaled, add, score);
    }
    reduce(CUDNN_REDUCE_TENSOR_MAX, score, most), pointwise(CUDNN_POINTWISE_SUB, score, most, less);
    pointwise(CUDNN_POINTWISE_EXP, less, nullptr, e), reduce(CUDNN_REDUCE_TENSOR_ADD, e, total);
    pointwise(CUDNN_POINTWISE_LOG, total, nullptr, log), pointwise(CUDNN_POINTWISE_ADD, most, log, lse);
    pointwise(CUDNN_POINTWISE_DIV, e, total, p), matmul(p, v, out);
    graph_ = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    api.set(graph_, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<int64_t>(ops_.size()), ops_.data());
    api.set(graph_, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &api.handle);
    must(api.finalize(graph_), "graph");
  }

  std::vector<Config> suggested(cudnnBackendHeurMode_t mode) {
    const Desc heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    link(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
    api_.set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    std::vector<Config> out;
    if (api_.finalize(heuristic) != CUDNN_STATUS_SUCCESS) return out;
    std::vector<Desc> raw;
    for (int i = 0; i < 32; ++i) raw.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    int64_t count = 0;
    api_.get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 32, &count, raw.data());
    for (int64_t i = 0; i < std::min<int64_t>(count, 32); ++i)
      out.push_back(read(raw[static_cast<size_t>(i)]));
    return out;
  }

  struct Knob {
    int64_t low, high, stride;
  };
  std::map<int64_t, Knob> knobs(int64_t engine) {
    const Desc e = engine_of(engine);
    std::vector<Desc> raw;
    for (int i = 0; i < 64; ++i) raw.push_back(make(CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR));
    int64_t count = 0, one = 0;
    api_.get(e, CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR, 64, &count, raw.data());
    std::map<int64_t, Knob> out;
    for (int64_t i = 0; i < std::min<int64_t>(count, 64); ++i) {
      const Desc info = raw[static_cast<size_t>(i)];
      cudnnBackendKnobType_t type{};
      Knob k{};
      api_.get(info, CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &one, &type);
      api_.get(info, CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, 1, &one, &k.low);
      api_.get(info, CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, 1, &one, &k.high);
      api_.get(info, CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, 1, &one, &k.stride);
      out[static_cast<int64_t>(type)] = k;
    }
    return out;
  }

  struct Plan {
    Config config;
    Desc desc = nullptr;
    int64_t workspace = 0;
  };
  bool plan(const Config& c, Plan& p) {
    const Desc config = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), engine = engine_of(c.engine);
    link(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    std::vector<Desc> choices;
    for (const auto& [type, value] : c.knobs) {
      const auto kind = static_cast<cudnnBackendKnobType_t>(type);
      const Desc choice = make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
      api_.set(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &kind);
      api_.set(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
      if (api_.finalize(choice) != CUDNN_STATUS_SUCCESS) return false;
      choices.push_back(choice);
    }
    if (!choices.empty())
      api_.set(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               static_cast<int64_t>(choices.size()), choices.data());
    if (api_.finalize(config) != CUDNN_STATUS_SUCCESS) return false;
    p.config = c, p.desc = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    api_.set(p.desc, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &api_.handle);
    link(p.desc, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (api_.finalize(p.desc) != CUDNN_STATUS_SUCCESS) return false;
    int64_t one = 0;
    api_.get(p.desc, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one, &p.workspace);
    return true;
  }

  bool run(const Plan& p, void* q, void* k, void* v, void* out, float scale, void* workspace, void* bias) {
    const Desc pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    int64_t ids[] = {1, 2, 3, 4, 5, 6};
    void* pointers[] = {q, k, v, out, &scale, bias};
    const int64_t count = bias ? 6 : 5;
    api_.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    api_.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    api_.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    return api_.finalize(pack) == CUDNN_STATUS_SUCCESS &&
           api_.execute(api_.handle, p.desc, pack) == CUDNN_STATUS_SUCCESS;
  }

 private:
  Desc make(cudnnBackendDescriptorType_t type) {  // they live as long as the program
    Desc d = nullptr;
    must(api_.create(type, &d), "descriptor");
    return d;
  }
  void link(Desc to, cudnnBackendAttributeName_t attribute, Desc what) {
    api_.set(to, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &what);
  }
  Desc tensor(int64_t id, const Dims& dims, const Dims& strides, cudnnDataType_t type, bool is_virtual,
              bool by_value = false) {
    const Desc d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t alignment = 16;
    api_.set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    api_.set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    api_.set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.data());
    api_.set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
    api_.set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    api_.set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    api_.set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    must(api_.finalize(d), "tensor");
    return d;
  }
  Desc between(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(next_++, dims, {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}, type, true);
  }
  void matmul(Desc a, Desc b, Desc c) {
    const Desc kind = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR),
               op = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    api_.set(kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kFloat);
    must(api_.finalize(kind), "matmul");
    link(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a), link(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    link(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c), link(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    add(op);
  }
  void pointwise(cudnnPointwiseMode_t mode, Desc x, Desc b, Desc y) {
    const Desc kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
               op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    api_.set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    api_.set(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &kFloat);
    must(api_.finalize(kind), "pointwise");
    link(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    link(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x), link(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b) link(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    add(op);
  }
  void reduce(cudnnReduceTensorOp_t mode, Desc x, Desc y) {
    const Desc kind = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
               op = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    api_.set(kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    api_.set(kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kFloat);
    must(api_.finalize(kind), "reduction");
    link(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x), link(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    link(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    add(op);
  }
  void add(Desc op) {
    must(api_.finalize(op), "operation");
    ops_.push_back(op);
  }
  Desc engine_of(int64_t index) {
    const auto [at, fresh] = engines_.try_emplace(index, nullptr);
    if (!fresh) return at->second;
    at->second = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    link(at->second, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_);
    api_.set(at->second, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    must(api_.finalize(at->second), "engine");
    return at->second;
  }
  Config read(Desc config) {
    Config out;
    Desc engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t one = 0, count = 0;
    api_.get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one, &engine);
    api_.get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one, &out.engine);
    std::vector<Desc> raw;
    for (int i = 0; i < 64; ++i) raw.push_back(make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    api_.get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 64, &count,
             raw.data());
    for (int64_t i = 0; i < std::min<int64_t>(count, 64); ++i) {
      cudnnBackendKnobType_t type{};
      int64_t value = 0;
      api_.get(raw[static_cast<size_t>(i)], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &one,
               &type);
      api_.get(raw[static_cast<size_t>(i)], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &one,
               &value);
      out.knobs[static_cast<int64_t>(type)] = value;
    }
    return out;
  }

  static constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT;
  const Api& api_;
  Desc graph_ = nullptr;
  std::vector<Desc> ops_;
  std::map<int64_t, Desc> engines_;
  int64_t next_ = 100;
};

void run(int64_t heads, int64_t lq, int64_t lk, int rounds, const std::string& bias) {
  auto gpu = cuda::open_gpu();
  std::string why;
  cuda::Cudnn* cudnn = cuda::Cudnn::of(*gpu, why);
  check(cudnn != nullptr, ErrorCode::unsupported, "{}", why);
  Api api;
  must(symbol<decltype(cudnnCreate)>("cudnnCreate")(&api.handle), "cudnnCreate");
  must(symbol<decltype(cudnnSetStream)>("cudnnSetStream")(api.handle,
                                                          static_cast<cudaStream_t>(gpu->stream())),
       "cudnnSetStream");
  Lab lab(api, heads, lq, lk, bias);

  std::vector<Lab::Plan> plans;
  std::set<std::string> seen;
  std::set<int64_t> engines;
  const auto consider = [&](const Config& c, const char* from) {
    if (!seen.insert(c.text()).second) return;
    Lab::Plan p;
    const bool made = lab.plan(c, p);
    if (from) fmt::print("  {}: {}{}\n", from, c.text(), made ? "" : " (no plan)");
    if (made) plans.push_back(p);
  };
  std::vector<Config> first;
  for (const auto& [mode, name] : {std::pair{CUDNN_HEUR_MODE_A, "A"}, std::pair{CUDNN_HEUR_MODE_B, "B"},
                                   std::pair{CUDNN_HEUR_MODE_FALLBACK, "fallback"}})
    for (const Config& c : lab.suggested(mode)) {
      consider(c, name);
      if (engines.insert(c.engine).second) first.push_back(c);
    }
  for (const Config& c : first)
    for (const auto& [type, knob] : lab.knobs(c.engine)) {
      fmt::print("  engine {} knob {}: {} to {} by {}\n", c.engine, type, knob.low, knob.high, knob.stride);
      int64_t tried = 0;
      for (int64_t v = knob.low; v <= knob.high && tried < 24;
           v += std::max<int64_t>(1, knob.stride), ++tried) {
        Config other = c;
        other.knobs[type] = v;
        if (c.knobs.contains(type) && c.knobs.at(type) == v) continue;
        consider(other, nullptr);
      }
    }
  fmt::print("{} plans of {} configurations\n", plans.size(), seen.size());
  std::fflush(stdout);

  const size_t nq = static_cast<size_t>(heads * lq * 128), nk = static_cast<size_t>(heads * lk * 128);
  const auto filled = [&](size_t count, uint32_t seed) {
    Buffer b(count * 2, gpu.get());
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> some(std::min<size_t>(count, 1000003));
    for (auto& v : some) v = to_bf16(normal(engine)).bits;
    for (size_t at = 0; at < count; at += some.size())
      gpu->upload(static_cast<uint16_t*>(b.data()) + at, some.data(), std::min(some.size(), count - at) * 2);
    return b;
  };
  const Buffer q = filled(nq, 1), k = filled(nk, 2), v = filled(nk, 3), out(nq * 2, gpu.get());
  int64_t most = 256;
  for (const auto& p : plans) most = std::max(most, p.workspace);
  const Buffer workspace(static_cast<size_t>(most), gpu.get());
  const Buffer biases(static_cast<size_t>((bias == "full" ? lq : 1) * lk) * 4, gpu.get());
  gpu->fill(biases.data(), 0x3c, biases.size());  // 0.0115 in either dtype
  const auto call = [&](const Lab::Plan& p) {
    return lab.run(p, q.data(), k.data(), v.data(), out.data(), 1 / std::sqrt(128.0f), workspace.data(),
                   bias.empty() ? nullptr : biases.data());
  };
  std::vector<float> expected;
  std::vector<std::vector<double>> times(plans.size());
  std::vector<double> off(plans.size(), -1);
  for (size_t i = 0; i < plans.size(); ++i) {
    gpu->fill(out.data(), 0xff, nq * 2);
    if (!call(plans[i])) continue;
    std::vector<uint16_t> raw(65536);
    gpu->download(raw.data(), static_cast<const uint16_t*>(out.data()) + (nq - raw.size()) / 3 * 2 / 64 * 64,
                  raw.size() * 2);
    std::vector<float> got;
    for (const uint16_t bits : raw) got.push_back(to_float(bf16_t{bits}));
    if (expected.empty()) expected = got;
    off[i] = 0;
    for (size_t j = 0; j < got.size(); ++j) {
      const double e = std::abs(static_cast<double>(got[j]) - expected[j]);
      off[i] = e <= off[i] ? off[i] : std::isnan(e) ? INFINITY : e;
    }
  }
  for (int r = 0; r < rounds; ++r)
    for (size_t i = 0; i < plans.size(); ++i)
      if (off[i] >= 0) times[i].push_back(cuda::device_us(*gpu, [&] { call(plans[i]); }));
  std::vector<size_t> order;
  for (size_t i = 0; i < plans.size(); ++i)
    if (off[i] >= 0) std::sort(times[i].begin(), times[i].end()), order.push_back(i);
  const auto middle = [&](size_t i) { return times[i][times[i].size() / 2]; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return middle(a) < middle(b); });
  const double flops = 4.0 * static_cast<double>(heads * lq * lk * 128);
  for (size_t n = 0; n < order.size(); ++n) {
    const size_t i = order[n];
    if (n >= 8 && i > 0) continue;
    const auto graph = cuda::capture(*gpu, [&] { call(plans[i]); });
    std::string names;
    for (const auto& name : graph->names()) names += fmt::format(" {}", name.substr(0, 150));
    fmt::print("  {}{:10.1f} us {:6.1f} TFLOP/s, off {:.1e}, workspace {}: {};{}\n",
               i == 0 ? "first " : "      ", middle(i), flops / middle(i) * 1e-6, off[i], plans[i].workspace,
               plans[i].config.text(), names);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc >= 4, "usage: cudnn_engines HEADS QUERIES KEYS [rounds]");
    fmt::print("heads {} queries {} keys {}\n", argv[1], argv[2], argv[3]);
    run(std::atol(argv[1]), std::atol(argv[2]), std::atol(argv[3]), argc > 4 ? std::atoi(argv[4]) : 5,
        argc > 5 ? argv[5] : "");
    return 0;
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
