// Tensors of any framework that supports DLPack, seen from C++ for the length of a call, and new tensors of
// the same framework.
//
// A type that has `__dlpack_c_exchange_api__` (PyTorch from 2.10) is asked through that table, which costs
// some tens of nanoseconds; every other object is asked through its method `__dlpack__`, which costs
// microseconds.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/dlpack.h"
#include "bind/op.h"

namespace tachy::python {

namespace nb = nanobind;

// Returns the table of the object's type, or null. Results are remembered by type.
const dlpack::Exchange* exchange_of(nb::handle object);
const dlpack::Exchange* exchange_of_type(nb::handle type);

// Describes the tensor behind a view; returns false if an op cannot take it, or if it has values but no
// memory.
bool describe(const dlpack::Tensor& view, Tensor& tensor);

class Borrowed {
 public:
  Borrowed() = default;
  // Throws nb::type_error if `object` is not a tensor, and Error for a tensor that cannot be used here. `op`
  // and `name` are for the error's text. `write` says that the tensor must not be read-only.
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

// Makes a new tensor of `like`'s framework, through the exchange table or with NumPy. Throws nb::type_error
// for other frameworks, whose users must give `out`.
nb::object make_result(nb::handle like, const Tensor& first, const Result& result, const char* op);

// Returns the place of a call's tensors, with the queue that `like`'s framework works on.
Place place_of(nb::handle like, const Tensor& first, const char* op);

}  // namespace tachy::python
