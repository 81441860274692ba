// tachyscope._core: the ops for tensors of any framework, without torch. There is one function for each op.
// Its arguments have the order of the signature, followed by the results if the caller has made them.
// tachyscope/ops.py adds names, defaults and help.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <deque>

#include "bind/exchange.h"
#include "bind/front.h"

namespace tachy::python {
namespace {

struct Bound {
  const Op* op;
  Signature signature;
};

std::string words_of(const Bound& bound) { return std::string(bound.op->name) + bound.op->signature; }

// Reads the scalar of an argument; tensors are filled in elsewhere.
void read_scalar(const Bound& bound, const Argument& argument, nb::handle given, Value& value) {
  try {
    if (argument.kind == Kind::number) value.number = nb::cast<double>(given);
    if (argument.kind == Kind::integer) value.integer = nb::cast<int64_t>(given);
    if (argument.kind == Kind::flag) value.integer = nb::cast<bool>(given);
  } catch (const nb::cast_error&) {
    const char* kind = argument.kind == Kind::number    ? "a number"
                       : argument.kind == Kind::integer ? "an int"
                                                        : "a bool";
    throw nb::type_error((std::string(bound.op->name) + ": expected " + argument.name + " to be " + kind +
                          ", got " + nb::cast<std::string>(nb::inst_name(given)))
                             .c_str());
  }
}

nb::object call(const Bound& bound, const nb::args& args) {
  const Op& op = *bound.op;
  const auto& arguments = bound.signature.arguments;
  const size_t count = arguments.size(), results = static_cast<size_t>(bound.signature.results);
  if (args.size() != count && args.size() != count + results)
    throw nb::type_error((words_of(bound) + ": expected " + std::to_string(count) +
                          " arguments, or with the results " + std::to_string(count + results) + ", got " +
                          std::to_string(args.size()))
                             .c_str());
  std::vector<Value> in(count);
  std::deque<Borrowed> borrowed;  // elements of a deque do not move
  for (size_t i = 0; i < count; ++i) {
    const nb::handle given = args[i];
    const Argument& a = arguments[i];
    if (a.kind == Kind::tensor || (a.kind == Kind::optional_tensor && !given.is_none()))
      in[i].tensor = borrowed.emplace_back(given, op.name, a.name.c_str(), false).tensor();
    else if (a.kind != Kind::optional_tensor)
      read_scalar(bound, a, given, in[i]);
  }
  const nb::handle like = args[0];
  const Tensor& first = in[0].tensor;
  const Results expected = op.results(in);
  std::vector<nb::object> objects;
  std::vector<Tensor> out;
  for (size_t i = 0; i < results; ++i) {
    const bool given = args.size() > count;
    objects.push_back(given ? nb::borrow(args[count + i]) : make_result(like, first, expected[i], op.name));
    out.push_back(borrowed.emplace_back(objects.back(), op.name, "out", true).tensor());
    if (given) expect_result(op, out.back(), expected[i], first);
  }
  const Place place = place_of(like, first, op.name);
  {
    const nb::gil_scoped_release others;
    Context context(place);
    run_op(op, bound.signature, in, out, context);
  }
  if (results == 1) return objects[0];
  nb::list list;
  for (const nb::object& o : objects) list.append(o);
  return nb::tuple(list);
}

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const Error& e) {
    PyObject* kind = e.code() == ErrorCode::invalid_argument ? PyExc_ValueError
                     : e.code() == ErrorCode::unsupported    ? PyExc_NotImplementedError
                     : e.code() == ErrorCode::out_of_memory  ? PyExc_MemoryError
                                                             : PyExc_RuntimeError;
    PyErr_SetString(kind, e.what());
  }
}

}  // namespace
}  // namespace tachy::python

NB_MODULE(_core, m) {
  using namespace tachy::python;
  m.doc() = "Tachyscope's ops for tensors of any framework that speaks DLPack; tachyscope.ops is the way in.";
  nb::register_exception_translator(translate);
  nb::dict signatures;
  for (const Op& op : op_table()) {
    auto* bound = new Bound{&op, parse_signature(op)};  // lives as long as the module
    m.attr(op.name) = nb::cpp_function([bound](const nb::args& args) { return call(*bound, args); },
                                       nb::name(op.name), nb::scope(m), op.signature);
    signatures[op.name] = op.signature;
  }
  m.attr("signatures") = signatures;
  add_front(m);
  m.def("set_threads", &set_threads, nb::arg("threads"),
        "How many threads the ops use on the CPU, the calling one included; 0: one for each processor.");
  m.def("threads", &threads, "How many threads the ops use on the CPU.");
}
