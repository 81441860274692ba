// libtachyscope_torch.so registers the table's ops with torch, in a namespace of torch that Python names
// (tachyscope/_ops.py), for tensors on the CPU and on CUDA devices. Each op is there three times, with one
// boxed function behind all: `NAME` (public: tachyscope/_torch.py gives it a fake function and gradients, and
// torch.compile sees it), `_NAME` (private: eager code without gradients calls it) and, if there is a single
// result, `_NAME_out`, which writes to the caller's result.
//
// A boxed function is a plain pointer that gets nothing but the arguments, so a template makes one for each
// entry of the table.
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "bind/op.h"
#include "bind/torch_abi.h"
#include "bind/torch_memory.h"

namespace tachy::python {
namespace {

using torch_abi::Handle;
using torch_abi::Slot;

void torch_check(int32_t failed, const Op& op, const char* what) {
  check(failed == 0, ErrorCode::internal, "{}: torch could not {}", op.name, what);
}

class Owned {  // an owned tensor
 public:
  explicit Owned(Handle handle = nullptr) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (handle_) torch_abi::functions().delete_tensor(handle_);
  }
  Handle get() const { return handle_; }
  Handle release() { return std::exchange(handle_, nullptr); }

 private:
  Handle handle_;
};

DType dtype_from(int32_t code, const Op& op, const std::string& name) {
  const auto& f = torch_abi::functions();
  const std::pair<int32_t, DType> known[] = {
      {f.f32, DType::f32}, {f.bf16, DType::bf16}, {f.f16, DType::f16}, {f.f64, DType::f64},
      {f.i8, DType::i8},   {f.i32, DType::i32},   {f.i64, DType::i64}, {f.boolean, DType::boolean}};
  for (const auto& [theirs, ours] : known)
    if (code == theirs) return ours;
  fail(ErrorCode::invalid_argument, "{}: expected {} f32, f16, bf16 or f64, got torch's dtype number {}",
       op.name, name, code);
}

int32_t dtype_to(DType dtype) {
  const auto& f = torch_abi::functions();
  if (dtype == DType::i8) return f.i8;
  return dtype == DType::bf16 ? f.bf16 : dtype == DType::f16 ? f.f16 : dtype == DType::f64 ? f.f64 : f.f32;
}

Tensor view(Handle handle, const Op& op, const std::string& name) {
  const auto& f = torch_abi::functions();
  int64_t rank = 0, *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0, type = 0, index = 0;
  Tensor t;
  torch_check(f.dim(handle, &rank) | f.sizes(handle, &sizes) | f.strides(handle, &strides) |
                  f.dtype(handle, &dtype) | f.device_type(handle, &type) | f.device_index(handle, &index) |
                  f.data_ptr(handle, &t.data),
              op, "describe a tensor");
  require(rank >= 1 && rank <= kMaxDims, "{}: expected {} with 1 to {} dims, got {}", op.name, name, kMaxDims,
          rank);
  t.rank = static_cast<int8_t>(rank);
  std::memcpy(t.dims, sizes, static_cast<size_t>(rank) * 8);
  std::memcpy(t.strides, strides, static_cast<size_t>(rank) * 8);
  t.dtype = dtype_from(dtype, op, name);
  require(type == f.cpu || type == f.cuda,
          "{}: expected {} on the CPU or a CUDA device, got torch's device type {}", op.name, name, type);
  t.device = type == f.cpu ? Device::cpu : Device::cuda(index);
  return t;
}

struct Call {
  std::vector<Owned> held;
  std::vector<Value> in;
};

// Takes the arguments off torch's stack; its tensors and the boxes of optional ones become ours.
Call unbox(const Op& op, const Signature& signature, Slot* stack) {
  Call call;
  call.in.resize(signature.arguments.size());
  std::vector<Handle> handles(call.in.size());
  call.held.reserve(call.in.size() + 1);
  for (size_t i = 0; i < call.in.size(); ++i) {
    const Kind kind = signature.arguments[i].kind;
    Value& value = call.in[i];
    if (kind == Kind::number) std::memcpy(&value.number, &stack[i], 8);
    if (kind == Kind::integer) std::memcpy(&value.integer, &stack[i], 8);
    if (kind == Kind::flag) value.integer = (stack[i] & 0xff) != 0;
    if (kind == Kind::tensor) handles[i] = reinterpret_cast<Handle>(stack[i]);
    if (kind == Kind::optional_tensor && stack[i]) {
      auto* const box = reinterpret_cast<Slot*>(stack[i]);
      handles[i] = reinterpret_cast<Handle>(*box);
      delete box;
    }
    if (handles[i]) call.held.emplace_back(handles[i]);
  }
  for (size_t i = 0; i < handles.size(); ++i)
    if (handles[i]) call.in[i].tensor = view(handles[i], op, signature.arguments[i].name);
  return call;
}

Place place_of(const Tensor& first, const Op& op) {
  Place place{.device = first.device};
  if (first.device.type != DeviceType::cuda) return place;
  const auto& f = torch_abi::functions();
  check(f.current_cuda_stream != nullptr, ErrorCode::unsupported, "{}: this torch has no CUDA", op.name);
  torch_check(f.current_cuda_stream(first.device.index, &place.queue), op, "name its current stream");
  place.memory = torch_memory;
  return place;
}

Owned make_result(const Result& r, const Tensor& first, const Op& op) {
  const auto& f = torch_abi::functions();
  const bool cuda = first.device.type == DeviceType::cuda;
  Handle made = nullptr;
  torch_check(f.empty_strided(r.rank, r.dims, r.strides, dtype_to(r.dtype), cuda ? f.cuda : f.cpu,
                              cuda ? first.device.index : 0, &made),
              op, "make the result");
  return Owned(made);
}

void compute(const Op& op, const Signature& signature, Slot* stack, bool into_out) {
  const Owned given(into_out ? reinterpret_cast<Handle>(stack[signature.arguments.size()]) : nullptr);
  Call call = unbox(op, signature, stack);
  const Tensor first = call.in[0].tensor;
  const Results expected = op.results(call.in);
  std::vector<Owned> made;
  std::vector<Tensor> out;
  for (const Result& r : expected) {
    if (!into_out) made.push_back(make_result(r, first, op));
    out.push_back(view(into_out ? given.get() : made.back().get(), op, "out"));
    if (into_out) expect_result(op, out.back(), r, first);
  }
  {
    Context context(place_of(first, op));
    run_op(op, signature, call.in, out, context);
  }
  for (size_t i = 0; i < made.size(); ++i) stack[i] = reinterpret_cast<Slot>(made[i].release());
}

const Signature& signature_at(size_t index) {
  static const auto* all = [] {
    auto* list = new std::vector<Signature>;
    for (const Op& op : op_table()) list->push_back(parse_signature(op));
    return list;
  }();
  return (*all)[index];
}

// The text of this thread's last wrong argument, for a ValueError where torch (after 2.11) raises none.
thread_local std::string last_refusal;
template <size_t kIndex, bool kOut>
void boxed(Slot* stack, uint64_t, uint64_t) {
  try {
    compute(op_table()[kIndex], signature_at(kIndex), stack, kOut);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::invalid_argument) {
      last_refusal = e.what();
      throw std::invalid_argument(e.what());
    }
    throw std::runtime_error(e.what());
  }
}

constexpr size_t kMostOps = 40;
template <bool kOut, size_t... kIndex>
constexpr std::array<torch_abi::Boxed, kMostOps> make_boxes(std::index_sequence<kIndex...>) {
  return {boxed<kIndex, kOut>...};
}
constexpr auto kFresh = make_boxes<false>(std::make_index_sequence<kMostOps>());
constexpr auto kInto = make_boxes<true>(std::make_index_sequence<kMostOps>());

std::string out_schema(const Op& op) {
  const std::string signature = op.signature;
  return signature.substr(0, signature.rfind(')', signature.find("->"))) + ", Tensor(a!) out) -> ()";
}

void register_all(const char* space) {
  const auto& f = torch_abi::functions();
  const auto done = [](int32_t failed) {
    check(failed == 0, ErrorCode::internal, "torch refused the ops of tachyscope");
  };
  torch_abi::Library names = nullptr;  // belongs to torch, as long as the process lives
  done(f.library_init_fragment(space, __FILE__, __LINE__, &names));
  torch_abi::Library devices[2] = {};
  done(f.library_init_impl(space, "CPU", __FILE__, __LINE__, &devices[0]));
  done(f.library_init_impl(space, "CUDA", __FILE__, __LINE__, &devices[1]));
  const auto ops = op_table();
  check(ops.size() <= kMostOps, ErrorCode::internal, "torch: {} ops, kMostOps is {}", ops.size(), kMostOps);
  for (size_t i = 0; i < ops.size(); ++i) {
    const std::string name = ops[i].name;
    std::vector<std::pair<std::string, torch_abi::Boxed>> forms = {{name, kFresh[i]},
                                                                   {"_" + name, kFresh[i]}};
    for (const auto& [form, function] : forms) done(f.library_def(names, (form + ops[i].signature).c_str()));
    if (signature_at(i).results == 1) {
      forms.emplace_back("_" + name + "_out", kInto[i]);
      done(f.library_def(names, (forms.back().first + out_schema(ops[i])).c_str()));
    }
    for (const torch_abi::Library device : devices)
      for (const auto& [form, function] : forms) done(f.library_impl(device, form.c_str(), function));
  }
}

}  // namespace
}  // namespace tachy::python

// The functions that Python calls through ctypes. The texts say why they failed, or are null.
#define TACHYSCOPE_C extern "C" __attribute__((visibility("default")))

TACHYSCOPE_C const char* tachyscope_last_refusal() { return tachy::python::last_refusal.c_str(); }

// Registers the ops in the namespace with this process's torch, once.
TACHYSCOPE_C const char* tachyscope_register_torch(const char* space) {
  static std::string why;
  static const bool registered = [space] {
    try {
      tachy::python::register_all(space);
      return true;
    } catch (const std::exception& e) {
      why = e.what();
      return false;
    }
  }();
  return registered ? nullptr : why.c_str();
}

// For a package that has no _core, which is a kernel laid out for the Hugging Face hub.
TACHYSCOPE_C const char* tachyscope_set_threads(int threads) {
  static thread_local std::string why;
  try {
    tachy::python::set_threads(threads);
    return nullptr;
  } catch (const std::exception& e) {
    why = e.what();
    return why.c_str();
  }
}

TACHYSCOPE_C int tachyscope_threads() { return tachy::python::threads(); }
