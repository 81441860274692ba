#include "session/tenant_bytes.h"

namespace tachy {

std::vector<Claim> worlds_of(const Tenant& t, const Claim* more) {
  std::vector<Claim> out;
  for (const Claim& c : t.claims)
    if (c.of == Claim::Of::world) out.push_back(c);
  if (more) out.push_back(*more);
  return out;
}

uint64_t nothing_kept(const std::set<PartKey>&) { return 0; }
uint64_t bytes_of_worlds(const Tenant& t) { return bytes_together(worlds_of(t, nullptr), nothing_kept); }

uint64_t idle_bytes(const Tenant& t, const Session* except) {
  uint64_t total = 0;
  for (const Tenant::Idle& i : t.idle)
    if (i.session != except) total += i.session->kept_bytes();
  return total;
}

uint64_t bytes_of_runs(const Tenant& t, const Claim* more, const Session* mine,
                       const std::set<PartKey>* wanted) {
  std::vector<Claim> claims(t.claims.begin(), t.claims.end());
  if (more) claims.push_back(*more);
  const auto kept = [&](const std::set<PartKey>& except) {
    const uint64_t all = t.model->parts().idle_bytes(except);
    if (!wanted) return all;
    std::set<PartKey> stay = *wanted;
    stay.insert(except.begin(), except.end());
    return all - t.model->parts().idle_bytes(stay);
  };
  const uint64_t all = bytes_together(claims, kept), worlds = bytes_of_worlds(t);
  return (wanted ? 0 : idle_bytes(t, mine)) + (all > worlds ? all - worlds : 0);
}

const Claim* claim_that_holds(const Wish& wish) {
  return wish.plan->keeps || !wish.session ? &wish.claim : nullptr;
}

std::set<PartKey> wanted_parts(const Tenant& t, const Claim* more) {
  std::vector<Claim> claims(t.claims.begin(), t.claims.end());
  if (more) claims.push_back(*more);
  return parts_of(claims);
}

}  // namespace tachy
