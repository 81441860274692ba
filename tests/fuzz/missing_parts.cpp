// Stand-ins for what fuzz_parts (CMakeLists.txt) calls in libraries that it does not link: the engine's version, and the list of all ops,
// which would need every op.
#include "api/tachyscope.h"
#include "ops/implementations.h"

std::string tachy::version() { return "0"; }

const std::vector<tachy::ops::OpImplementations>& tachy::ops::all_implementations() {
  static const std::vector<OpImplementations> one = {{.op = "gemm", .names = {"ref"}}};
  return one;
}
