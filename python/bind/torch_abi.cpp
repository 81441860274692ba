#include "bind/torch_abi.h"

#include "base/error.h"
#include "base/os/library.h"

namespace tachy::python::torch_abi {
namespace {

template <class F>
void find(const os::Library& library, const char* name, F& function) {
  function = reinterpret_cast<F>(library.symbol(name));
  check(function != nullptr, ErrorCode::unsupported, "torch: expected 2.10 or newer, got one without {}",
        name);
}

void find_code(const os::Library& library, const char* name, int32_t& code) {
  int32_t (*function)() = nullptr;
  find(library, name, function);
  code = function();
}

Functions look_up() {
  const auto cpu = os::Library::loaded("libtorch_cpu.so");
  check(static_cast<bool>(cpu), ErrorCode::unsupported,
        "torch: expected it to be imported first, found no libtorch_cpu.so");
  Functions f;
  find(cpu, "aoti_torch_library_init_fragment", f.library_init_fragment);
  find(cpu, "aoti_torch_library_init_impl", f.library_init_impl);
  find(cpu, "aoti_torch_library_def", f.library_def);
  find(cpu, "aoti_torch_library_impl", f.library_impl);
  find(cpu, "aoti_torch_delete_tensor_object", f.delete_tensor);
  find(cpu, "aoti_torch_get_data_ptr", f.data_ptr);
  find(cpu, "aoti_torch_get_dim", f.dim);
  find(cpu, "aoti_torch_get_sizes", f.sizes);
  find(cpu, "aoti_torch_get_strides", f.strides);
  find(cpu, "aoti_torch_get_dtype", f.dtype);
  find(cpu, "aoti_torch_get_device_type", f.device_type);
  find(cpu, "aoti_torch_get_device_index", f.device_index);
  find(cpu, "aoti_torch_empty_strided", f.empty_strided);
  find_code(cpu, "aoti_torch_dtype_float32", f.f32);
  find_code(cpu, "aoti_torch_dtype_float64", f.f64);
  find_code(cpu, "aoti_torch_dtype_float16", f.f16);
  find_code(cpu, "aoti_torch_dtype_bfloat16", f.bf16);
  find_code(cpu, "aoti_torch_dtype_int8", f.i8);
  find_code(cpu, "aoti_torch_dtype_int32", f.i32);
  find_code(cpu, "aoti_torch_dtype_int64", f.i64);
  find_code(cpu, "aoti_torch_dtype_bool", f.boolean);
  find_code(cpu, "aoti_torch_device_type_cpu", f.cpu);
  find_code(cpu, "aoti_torch_device_type_cuda", f.cuda);
  if (const auto cuda = os::Library::loaded("libtorch_cuda.so")) {
    find(cuda, "aoti_torch_get_current_cuda_stream", f.current_cuda_stream);
    find(cuda, "aoti_torch_cuda_caching_allocator_raw_alloc", f.cuda_alloc);
    find(cuda, "aoti_torch_cuda_caching_allocator_raw_delete", f.cuda_free);
  }
  return f;
}

}  // namespace

const Functions& functions() {
  static const Functions found = look_up();
  return found;
}

}  // namespace tachy::python::torch_abi
