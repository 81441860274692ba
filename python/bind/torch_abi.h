// The functions of torch's stable C interface that are used, declared by hand. They have kept their meaning
// since torch 2.10 and are looked up in the libtorch that the process has loaded, so that this library is
// built without torch and works with every later version. Each returns 0 on success.
#pragma once

#include <cstdint>
#include <string>

namespace tachy::python::torch_abi {

struct TensorObject;
struct LibraryObject;
using Handle = TensorObject*;
using Library = LibraryObject*;
using Slot = uint64_t;  // an argument or result of an op as torch's C interface passes it
using Boxed = void (*)(Slot* stack, uint64_t arguments, uint64_t results);

struct Functions {
  int32_t (*library_init_fragment)(const char* space, const char* file, uint32_t line, Library* out);
  int32_t (*library_init_impl)(const char* space, const char* key, const char* file, uint32_t line,
                               Library* out);
  int32_t (*library_def)(Library self, const char* schema);
  int32_t (*library_impl)(Library self, const char* name, Boxed function);

  int32_t (*delete_tensor)(Handle tensor);
  int32_t (*data_ptr)(Handle tensor, void** out);
  int32_t (*dim)(Handle tensor, int64_t* out);
  int32_t (*sizes)(Handle tensor, int64_t** out);
  int32_t (*strides)(Handle tensor, int64_t** out);
  int32_t (*dtype)(Handle tensor, int32_t* out);
  int32_t (*device_type)(Handle tensor, int32_t* out);
  int32_t (*device_index)(Handle tensor, int32_t* out);
  int32_t (*empty_strided)(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                           int32_t device_type, int32_t device_index, Handle* out);

  // A function of libtorch_cuda; null if that is not loaded.
  int32_t (*current_cuda_stream)(int32_t device_index, void** out) = nullptr;
  int32_t (*cuda_alloc)(uint64_t bytes, void** out) = nullptr;
  int32_t (*cuda_free)(void* p) = nullptr;

  // torch's codes for these dtypes and devices.
  int32_t f32, f64, f16, bf16, i8, i32, i64, boolean, cpu, cuda;
};

// Throws unsupported, naming what is missing, if torch is not loaded or older than 2.10.
const Functions& functions();

}  // namespace tachy::python::torch_abi
