// The objects of torch's Python side that the C functions for eager calls (front.cpp) use, given once by
// tachyscope/_torch.py, and small helpers around Python's C interface.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "bind/dlpack.h"

namespace tachy::python {

// All references are kept for as long as the process lives.
struct World {
  PyObject *tensor = nullptr, *parameter = nullptr;  // the two types whose objects are plain tensors
  const dlpack::Exchange* exchange = nullptr;
  // Functions without arguments: if one returns anything but false, no call is plain.
  std::vector<PyObject*> watchers;
  PyObject* autocast = nullptr;      // a function without arguments: whether a region of autocast is active
  PyObject* forward_ad = nullptr;    // a module whose _current_level is −1 if nothing asks for tangents
  PyObject* profiler = nullptr;      // a module whose _is_profiler_enabled says quickly if there is one
  PyObject* grad_enabled = nullptr;  // a function without arguments
  PyObject* is_negated = nullptr;    // takes a tensor: says whether its values are those in memory times −1
  PyObject* empty_like = nullptr;    // takes a tensor
  PyObject* empty_strided = nullptr;  // takes a tensor, dims, strides
  PyObject* dtypes[5] = {};           // f32, f16, bf16, f64, i8
  PyObject *level_word = nullptr, *profiled_word = nullptr, *requires_word = nullptr, *dtype_words = nullptr;
};

// Throws Error if torch has not been given.
const World& world();
// `torch` has the objects that are used, under names of our own.
void use_torch(const nanobind::dict& torch);

class Reference {  // an owned reference to an object
 public:
  explicit Reference(PyObject* object = nullptr) : object_(object) {}
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(Reference&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Reference() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

// Python has raised an exception, which is passed on unchanged.
struct Raised {};

// Says whether an answer is true, and releases it. Throws Raised if there is no answer.
bool truth(PyObject* answer);

// Says whether anything watches or changes calls: then only torch's dispatcher knows what should happen.
// Autocast only counts if `by_autocast` is set: arguments may already be those that it makes.
bool watched(bool by_autocast);

PyObject* kept(nanobind::handle object);

}  // namespace tachy::python
