// Tensors of any framework that speaks DLPack, seen from C++ for the length of a call, and new ones of the same framework.
//
// A type that has `__dlpack_c_exchange_api__` (PyTorch from 2.10) is asked through that table, which costs some tens of
// nanoseconds; every other object through its method `__dlpack__`, which costs microseconds.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/dlpack.h"
#include "bind/op.h"

namespace tachy::python {

namespace nb = nanobind;

// The table of the object's type, or null. What was found is remembered by type.
const dlpack::Exchange* exchange_of(nb::handle object);
const dlpack::Exchange* exchange_of_type(nb::handle type);

// The tensor behind a view; false where it is none that an op can take, or has values but no memory.
bool describe(const dlpack::Tensor& view, Tensor& tensor);

class Borrowed {
 public:
  Borrowed() = default;
  // Throws nb::type_error where `object` is no tensor, Error where it is one that cannot be used here. `op` and
  // `name` are for its words. `write`: it must not be read-only.
  Borrowed(nb::handle object, const char* op, const char* name, bool write);
  ~Borrowed();
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  const Tensor& tensor() const { return tensor_; }

 private:
  void take(const dlpack::Tensor& t, const char* op, const char* name);
  void take_capsule(nb::handle object, const char* op, const char* name, bool write);

  Tensor tensor_;
  dlpack::Managed* managed_ = nullptr;
  dlpack::ManagedVersioned* versioned_ = nullptr;
};

// A new tensor of `like`'s framework: through the exchange table, or of NumPy. Throws nb::type_error for others,
// whose users give `out`.
nb::object make_result(nb::handle like, const Tensor& first, const Result& result, const char* op);

// Where the tensors of a call lie, with the queue that `like`'s framework works on.
Place place_of(nb::handle like, const Tensor& first, const char* op);

}  // namespace tachy::python
