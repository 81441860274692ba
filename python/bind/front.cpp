#include "bind/front.h"

#include <nanobind/stl/string.h>

#include "bind/exchange.h"
#include "bind/torch_abi.h"
#include "bind/torch_memory.h"
#include "bind/torch_world.h"

namespace tachy::python {
namespace {

struct Front {
  const Op* op;
  Signature signature;
  PyObject* slow;  // takes the calls that this path leaves
  // Takes calls whose gradients are recorded; if it is null, only the arguments are checked.
  PyObject* recorded;
  bool cast;  // the arguments are those that autocast makes, so an active region changes nothing
  PyMethodDef definition;
};
constexpr size_t kMostArguments = 12;

// One call, with its arguments and its results.
class Call {
 public:
  Call(const Front& front, PyObject* const* args) : front_(front), args_(args) {}

  // Says whether this path can take all arguments.
  bool take() {
    for (size_t i = 0; i < count(); ++i)
      if (!take(front_.signature.arguments[i].kind, args_[i], in_[i])) return false;
    return true;
  }

  bool any_negated() const {
    return any_tensor(
        [](PyObject* const t) { return truth(PyObject_Vectorcall(world().is_negated, &t, 1, nullptr)); });
  }
  bool any_recorded() const {
    return any_tensor([](PyObject* const t) { return truth(PyObject_GetAttr(t, world().requires_word)); });
  }

  PyObject* compute() {
    const Op& op = *front_.op;
    const Inputs in(in_, count());
    const Results expected = op.results(in);
    Reference objects[Results::kMost];
    Tensor out[Results::kMost];
    for (size_t i = 0; i < expected.size(); ++i) {
      objects[i] = make(expected[i]);
      if (expected[i].absent) continue;
      check(take(Kind::tensor, objects[i].get(), result_), ErrorCode::internal,
            "{}: torch made no plain result", op.name);
      out[i] = result_.tensor;
    }
    const Place place = this->place();
    {
      const nb::gil_scoped_release others;
      Context context(place);
      run_op(op, front_.signature, in, {out, expected.size()}, context);
    }
    if (expected.size() == 1) return objects[0].release();
    PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(expected.size()));
    if (!tuple) throw Raised();
    for (size_t i = 0; i < expected.size(); ++i)
      PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i), objects[i].release());
    return tuple;
  }

 private:
  size_t count() const { return front_.signature.arguments.size(); }

  template <class Question>
  bool any_tensor(Question&& question) const {
    for (size_t i = 0; i < count(); ++i)
      if (in_[i].tensor.defined() && question(args_[i])) return true;
    return false;
  }

  // Only numbers of the exact types are accepted: torch decides what else counts as a number.
  static bool take(Kind kind, PyObject* given, Value& value) {
    PyTypeObject* const type = Py_TYPE(given);
    switch (kind) {
      case Kind::optional_tensor:
        if (given == Py_None) return true;
        [[fallthrough]];
      case Kind::tensor:
        return take_tensor(given, value.tensor);
      case Kind::number:
        if (type != &PyFloat_Type && type != &PyLong_Type) return false;
        value.number = PyFloat_AsDouble(given);
        return no_error();
      case Kind::integer:
        if (type != &PyLong_Type) return false;
        value.integer = PyLong_AsLongLong(given);
        return no_error();
      case Kind::flag:
        if (type != &PyBool_Type) return false;
        value.integer = given == Py_True;
        return true;
    }
    return false;
  }
  static bool no_error() {
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
  }
  static bool take_tensor(PyObject* given, Tensor& tensor) {
    auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(given));
    if (type != world().tensor && type != world().parameter) return false;
    dlpack::Tensor view{};
    if (world().exchange->view_object(given, &view) != 0) {
      PyErr_Clear();
      return false;
    }
    return describe(view, tensor);
  }

  Reference make(const Result& r) const {
    if (r.absent) {
      Py_INCREF(Py_None);
      return Reference(Py_None);
    }
    for (size_t i = 0; i < count(); ++i) {
      const Tensor& t = in_[i].tensor;
      if (t.rank == r.rank && t.dtype == r.dtype && std::equal(r.dims, r.dims + r.rank, t.dims) &&
          std::equal(r.strides, r.strides + r.rank, t.strides))
        return made(PyObject_Vectorcall(world().empty_like, &args_[i], 1, nullptr));
    }
    const auto tuple = [&](const int64_t* values) {
      Reference all(PyTuple_New(r.rank));
      for (int i = 0; all && i < r.rank; ++i) PyTuple_SetItem(all.get(), i, PyLong_FromLongLong(values[i]));
      return all;
    };
    const Reference dims = tuple(r.dims), strides = tuple(r.strides);
    const int dtype = r.dtype == DType::f16    ? 1
                      : r.dtype == DType::bf16 ? 2
                      : r.dtype == DType::f64  ? 3
                      : r.dtype == DType::i8   ? 4
                                               : 0;
    PyObject* const words[] = {args_[0], dims.get(), strides.get(), world().dtypes[dtype]};
    if (!dims || !strides) throw Raised();
    return made(PyObject_Vectorcall(world().empty_strided, words, 3, world().dtype_words));
  }
  static Reference made(PyObject* object) {
    if (!object) throw Raised();
    return Reference(object);
  }

  Place place() const {
    const Tensor& first = in_[0].tensor;
    Place place{.device = first.device};
    if (first.device.type != DeviceType::cuda) return place;
    const auto& f = torch_abi::functions();
    check(f.current_cuda_stream && f.current_cuda_stream(first.device.index, &place.queue) == 0,
          ErrorCode::unsupported, "{}: torch could not name its current stream", front_.op->name);
    place.memory = torch_memory;
    return place;
  }

  const Front& front_;
  PyObject* const* args_;
  Value in_[kMostArguments];
  Value result_;
};

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  const auto& front = *static_cast<const Front*>(PyCapsule_GetPointer(self, nullptr));
  const auto given = static_cast<size_t>(count);
  try {
    Call call(front, args);
    if (given != front.signature.arguments.size() || !call.take())
      return PyObject_Vectorcall(front.slow, args, given, nullptr);
    if (front.recorded) {
      if (watched(!front.cast) || call.any_negated())
        return PyObject_Vectorcall(front.slow, args, given, nullptr);
      if (truth(PyObject_CallNoArgs(world().grad_enabled)) && call.any_recorded())
        return PyObject_Vectorcall(front.recorded, args, given, nullptr);
    }
    return call.compute();
  } catch (const Raised&) {
  } catch (const Error& e) {
    PyErr_SetString(e.code() == ErrorCode::invalid_argument ? PyExc_ValueError : PyExc_RuntimeError,
                    e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

nb::object torch_front(const std::string& name, const nb::object& slow, const nb::object& recorded,
                       bool cast) {
  for (const Op& op : op_table()) {
    if (name != op.name) continue;
    // The object lives as long as the module.
    auto* const front = new Front{
        &op, parse_signature(op), kept(slow), recorded.is_none() ? nullptr : kept(recorded), cast, {}};
    check(front->signature.arguments.size() <= kMostArguments, ErrorCode::internal, "{}: too many arguments",
          name);
    front->definition = {op.name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)),
                         METH_FASTCALL, op.signature};
    const nb::object self = nb::steal(PyCapsule_New(front, nullptr, nullptr));
    return nb::steal(PyCFunction_NewEx(&front->definition, self.ptr(), nullptr));
  }
  fail(ErrorCode::internal, "_torch_front: no op {}", name);
}

}  // namespace

void add_front(nb::module_& m) {
  m.def("_use_torch", &use_torch);
  m.def("_torch_front", &torch_front, nb::arg("name"), nb::arg("slow"), nb::arg("recorded").none(),
        nb::arg("cast") = false);
}

}  // namespace tachy::python
