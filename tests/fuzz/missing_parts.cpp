// Replacements for functions that fuzz_parts (CMakeLists.txt) calls in libraries that it does not link. These
// are the engine's version, the list of all ops, which would need every op, the name of a way to choose keys,
// which lies beside the op that it is for, and the number of processes of a run.
#include "api/tachyscope.h"
#include "models/wan/sparse.h"
#include "ops/implementations.h"
#include "session/model.h"

std::string tachy::version() { return "0"; }

tachy::KeyChooser tachy::parse_key_chooser(std::string_view) { return {}; }

int tachy::processes_of(const runtime::Crew&) { return 1; }

const std::vector<tachy::ops::OpImplementations>& tachy::ops::all_implementations() {
  static const std::vector<OpImplementations> one = {{.op = "gemm", .names = {"ref"}}};
  return one;
}

const std::vector<std::string>& tachy::ops::backward_ops() {
  static const std::vector<std::string> none;
  return none;
}
