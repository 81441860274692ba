#include "bind/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

namespace tachy::python {
namespace {

bool find_dtype(const dlpack::DataType& t, DType& dtype) {
  if (t.lanes != 1) return false;
  switch (t.code * 256 + t.bits) {
    case dlpack::kFloat * 256 + 16:
      return dtype = DType::f16, true;
    case dlpack::kFloat * 256 + 32:
      return dtype = DType::f32, true;
    case dlpack::kFloat * 256 + 64:
      return dtype = DType::f64, true;
    case dlpack::kBfloat * 256 + 16:
      return dtype = DType::bf16, true;
    case dlpack::kInt * 256 + 8:
      return dtype = DType::i8, true;
    case dlpack::kInt * 256 + 32:
      return dtype = DType::i32, true;
    case dlpack::kInt * 256 + 64:
      return dtype = DType::i64, true;
    case dlpack::kBool * 256 + 8:
      return dtype = DType::boolean, true;
    default:
      return false;
  }
}

DType dtype_from(const dlpack::DataType& t, const char* op, const char* name) {
  DType dtype;
  if (find_dtype(t, dtype)) return dtype;
  fail(ErrorCode::invalid_argument, "{}: expected {} f32, f16, bf16 or f64, got DLPack type {} of {} bits",
       op, name, t.code, t.bits);
}

dlpack::DataType dtype_to(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return {dlpack::kBfloat, 16, 1};
    case DType::f16:
      return {dlpack::kFloat, 16, 1};
    case DType::f64:
      return {dlpack::kFloat, 64, 1};
    case DType::i8:
      return {dlpack::kInt, 8, 1};
    default:
      return {dlpack::kFloat, 32, 1};
  }
}

bool find_device(const dlpack::Device& d, tachy::Device& device) {
  const bool cpu = d.type == dlpack::kCpu || d.type == dlpack::kCudaHost;
  device = cpu ? tachy::Device::cpu : tachy::Device::cuda(d.index);
  return cpu || d.type == dlpack::kCuda || d.type == dlpack::kCudaManaged;
}

void copy_layout(const dlpack::Tensor& t, Tensor& tensor) {
  tensor.data = static_cast<char*>(t.data) + t.byte_offset;
  tensor.rank = static_cast<int8_t>(t.rank);
  int64_t step = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    tensor.dims[i] = t.shape[i];
    tensor.strides[i] = t.strides ? t.strides[i] : step;
    step *= t.shape[i];
  }
}

std::string kind_of(nb::handle object) { return nb::cast<std::string>(nb::inst_name(object)); }

}  // namespace

const dlpack::Exchange* exchange_of(nb::handle object) {
  return exchange_of_type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
}

const dlpack::Exchange* exchange_of_type(nb::handle given) {
  // Tables by type; the GIL protects them.
  static auto* known = new std::unordered_map<PyObject*, const dlpack::Exchange*>;
  PyObject* const type = given.ptr();
  const auto found = known->find(type);
  if (found != known->end()) return found->second;
  const dlpack::Exchange* table = nullptr;
  const nb::object capsule = nb::getattr(nb::handle(type), "__dlpack_c_exchange_api__", nb::none());
  if (PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) {
    auto* header = static_cast<const dlpack::ExchangeHeader*>(
        PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (header && header->version.major != 1) header = header->previous;
    table = reinterpret_cast<const dlpack::Exchange*>(header);
    if (table && !table->view_object) table = nullptr;
  }
  Py_INCREF(type);  // keeps the type alive, so that no other type gets this address
  known->emplace(type, table);
  return table;
}

Borrowed::Borrowed(nb::handle object, const char* op, const char* name, bool write) {
  if (const dlpack::Exchange* table = exchange_of(object)) {
    dlpack::Tensor view{};
    if (table->view_object(object.ptr(), &view) != 0) throw nb::python_error();
    take(view, op, name);
    return;
  }
  take_capsule(object, op, name, write);
}

Borrowed::~Borrowed() {
  if (managed_ && managed_->deleter) managed_->deleter(managed_);
  if (versioned_ && versioned_->deleter) versioned_->deleter(versioned_);
}

void Borrowed::take(const dlpack::Tensor& t, const char* op, const char* name) {
  require(t.rank >= 1 && t.rank <= kMaxDims, "{}: expected {} with 1 to {} dims, got {}", op, name, kMaxDims,
          t.rank);
  tensor_.dtype = dtype_from(t.dtype, op, name);
  require(find_device(t.device, tensor_.device),
          "{}: expected {} on the CPU or a CUDA device, got DLPack device {}", op, name, t.device.type);
  copy_layout(t, tensor_);
  require(tensor_.data != nullptr || tensor_.numel() == 0, "{}: expected {} with values in memory, got none",
          op, name);
}

bool describe(const dlpack::Tensor& view, Tensor& tensor) {
  if (view.rank < 1 || view.rank > kMaxDims || !find_dtype(view.dtype, tensor.dtype) ||
      !find_device(view.device, tensor.device))
    return false;
  copy_layout(view, tensor);
  return view.data != nullptr || tensor.numel() == 0;
}

void Borrowed::take_capsule(nb::handle object, const char* op, const char* name, bool write) {
  if (!nb::hasattr(object, "__dlpack__"))
    throw nb::type_error(
        fmt::format("{}: expected {} to be a tensor or an array (anything with __dlpack__), got {}", op, name,
                    kind_of(object))
            .c_str());
  const nb::object method = object.attr("__dlpack__");
  nb::object capsule;
  try {
    capsule = method(nb::arg("max_version") = nb::make_tuple(1, 1));
  } catch (nb::python_error& e) {  // older producers do not have this argument
    if (!e.matches(PyExc_TypeError)) throw;
    capsule = method();
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    versioned_ =
        static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    require(versioned_->version.major == 1, "{}: expected {} by DLPack 1, got version {}", op, name,
            versioned_->version.major);
    require(!write || !(versioned_->flags & dlpack::kReadOnly),
            "{}: expected {} to be writable, got a read-only array", op, name);
    return take(versioned_->tensor, op, name);
  }
  require(PyCapsule_IsValid(capsule.ptr(), "dltensor"), "{}: expected {} to give a DLPack capsule, got {}",
          op, name, kind_of(capsule));
  managed_ = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  take(managed_->tensor, op, name);
}

namespace {

nb::object make_by_exchange(const dlpack::Exchange& table, const Tensor& first, const Result& r) {
  int64_t dims[kMaxDims], strides[kMaxDims];
  std::copy_n(r.dims, kMaxDims, dims);
  std::copy_n(Result::contiguous(r.dtype, {r.dims, static_cast<size_t>(r.rank)}).strides, kMaxDims, strides);
  const bool cuda = first.device.type == DeviceType::cuda;
  dlpack::Tensor like{nullptr, {cuda ? dlpack::kCuda : dlpack::kCpu, first.device.index},
                      r.rank,  dtype_to(r.dtype),
                      dims,    strides,
                      0};
  std::string said;
  dlpack::ManagedVersioned* made = nullptr;
  const auto keep = [](void* to, const char*, const char* message) {
    *static_cast<std::string*>(to) = message;
  };
  check(table.allocate(&like, &made, &said, keep) == 0, ErrorCode::out_of_memory,
        "no memory for a result: {}", said);
  void* object = nullptr;
  if (table.managed_to_object(made, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

}  // namespace

nb::object make_result(nb::handle like, const Tensor& first, const Result& r, const char* op) {
  if (const dlpack::Exchange* table = exchange_of(like)) return make_by_exchange(*table, first, r);
  if (!nb::hasattr(like, "__array_interface__") || first.device.type != DeviceType::cpu)
    throw nb::type_error(
        fmt::format("{}: expected out, since no way is known to make a new {}", op, kind_of(like)).c_str());
  require(r.dtype != DType::bf16, "{}: expected out, since NumPy has no bf16", op);
  nb::list dims;
  for (int i = 0; i < r.rank; ++i) dims.append(r.dims[i]);
  const char* dtype = r.dtype == DType::f16   ? "float16"
                      : r.dtype == DType::f64 ? "float64"
                      : r.dtype == DType::i8  ? "int8"
                                              : "float32";
  return nb::module_::import_("numpy").attr("empty")(nb::tuple(dims), dtype);
}

Place place_of(nb::handle like, const Tensor& first, const char* op) {
  Place place{.device = first.device};
  if (first.device.type == DeviceType::cpu) return place;
  const dlpack::Exchange* table = exchange_of(like);
  if (!table) return place;  // `__dlpack__` without a stream is ordered with CUDA's default one
  if (table->current_stream(dlpack::kCuda, first.device.index, &place.queue) != 0) throw nb::python_error();
  return place;
}

}  // namespace tachy::python
