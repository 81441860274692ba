#include "inspect/doctor_picks.h"

#include <algorithm>
#include <set>

#include "cuda/gpu.h"
#include "ops/op_case.h"

namespace tachy {

using ops::CaseKind;

std::vector<CasePick> picks_here(cuda::Gpu* gpu, DType dtype, bool definitions, ThreadPool& pool) {
  const auto cases = all_op_cases();
  const auto here = [&](const ops::OpCase& c) { return gpu ? c.gpu : c.cpu && c.kind != CaseKind::video; };
  std::set<std::string> have_real;
  for (const ops::OpCase& c : cases)
    if (here(c) && c.kind >= CaseKind::real) have_real.insert(c.op);
  std::vector<CasePick> made;
  for (const ops::OpCase& c : cases) {
    const bool real = c.kind >= CaseKind::real;
    if (!here(c) || real != have_real.contains(c.op)) continue;
    ops::CaseMemory memory(1, c.kind,
                           {.dtype = dtype, .gpu = gpu, .device = gpu, .pool = &pool, .blank = real});
    const ops::BoundOp op = c.make(memory);
    memory.finish();
    Arena arena;
    const Stream stream{.arena = &arena,
                        .pool = &pool,
                        .gpu = gpu,
                        .memory = gpu,
                        .precision = {.activation = dtype, .definitions = definitions}};
    made.push_back({c.op, op.compute, op.choose(stream), real});
  }
  return made;
}

void count_picks(std::map<std::string, OpHealth>& health, const std::vector<CasePick>& made,
                 const Mode& mode) {
  std::map<std::string, std::map<std::pair<std::string, std::string>, int>> picks;
  std::map<std::string, size_t> choices;
  // Products have cases in float32 and in bf16: only those of this level count.
  std::set<std::string> asked;  // ops that have cases in this level's arithmetic
  for (const CasePick& m : made)
    if (m.compute == mode.compute) asked.insert(m.op);
  for (const CasePick& m : made) {
    if (m.compute != mode.compute && asked.contains(m.op)) continue;
    ++picks[m.op][{m.choice.impl, ops::describe(m.choice.passed)}];
    health[m.op].real = m.real;
    choices[m.op] = std::max(choices[m.op], m.choice.candidates);
  }
  for (const auto& [op, counts] : picks) {
    OpHealth& h = health[op];
    h.op = op;
    std::map<std::string, int> by_impl;
    for (const auto& [pick, count] : counts) h.cases += count, by_impl[pick.first] += count;
    h.pick = std::max_element(by_impl.begin(), by_impl.end(), [](auto& a, auto& b) {
               return a.second < b.second;
             })->first;
    // `why` is the most frequent reason for that choice; everything else is an exception.
    const auto most = std::max_element(counts.begin(), counts.end(), [&](auto& a, auto& b) {
      return (a.first.first == h.pick ? a.second : 0) < (b.first.first == h.pick ? b.second : 0);
    });
    h.why = !most->first.second.empty() ? "not " + most->first.second
            : choices[op] == 1          ? "its only one"
                                        : fmt::format("first choice of {}", choices[op]);
    // There is one line for each other implementation, with its most frequent reason.
    std::map<std::string, int> commonest;
    for (const auto& [pick, count] : counts) {
      if (pick.first == h.pick) continue;
      auto it = std::find_if(h.exceptions.begin(), h.exceptions.end(),
                             [&](const OpHealth::Exception& e) { return e.pick == pick.first; });
      if (it == h.exceptions.end()) it = h.exceptions.insert(it, {pick.first, "", 0});
      it->cases += count;
      if (count > commonest[pick.first]) commonest[pick.first] = count, it->reason = pick.second;
    }
  }
}

}  // namespace tachy
