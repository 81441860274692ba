// The parts of DLPack through which tensors come in, declared here in the standard's layout (version 1.3):
// the managed tensors that `__dlpack__` returns in capsules, old and versioned, and the table of functions
// behind a type's `__dlpack_c_exchange_api__`, which describes a tensor without making an object.
#pragma once

#include <cstdint>

namespace tachy::python::dlpack {

enum DeviceCode : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct Version {
  uint32_t major, minor;
};
struct Device {
  int32_t type, index;
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t *shape, *strides;  // strides in elements; null: contiguous
  uint64_t byte_offset;
};

struct Managed {  // the content of a capsule "dltensor"
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {  // the content of a capsule "dltensor_versioned"
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};
inline constexpr uint64_t kReadOnly = 1;

struct ExchangeHeader {
  Version version;
  ExchangeHeader* previous;  // an older table of the same type
};
// Each function returns 0, or another number with a Python exception set.
struct Exchange {
  ExchangeHeader header;
  int (*allocate)(Tensor* like, ManagedVersioned** out, void* error,
                  void (*set_error)(void* error, const char* kind, const char* message));
  int (*managed_from_object)(void* object, ManagedVersioned** out);
  int (*managed_to_object)(ManagedVersioned* tensor, void** object);
  int (*view_object)(void* object, Tensor* out);  // may be null; nothing is kept alive
  int (*current_stream)(int32_t device_type, int32_t device_index, void** out);
};

}  // namespace tachy::python::dlpack
