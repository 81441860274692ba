// The bytes that a tenant of a device holds, and the parts that its claims want.
#pragma once

#include "session/tenants.h"

namespace tachy {

// Returns the claims of worlds, perhaps with one more.
std::vector<Claim> worlds_of(const Tenant& t, const Claim* more);
uint64_t nothing_kept(const std::set<PartKey>&);
uint64_t bytes_of_worlds(const Tenant& t);
// Returns how many bytes idle sessions hold, but for one.
uint64_t idle_bytes(const Tenant& t, const Session* except);

// Returns what a tenant may hold at once, including one more claim, but without its worlds. `mine` is an idle
// session that does not count. With `wanted`, everything that is idle goes, except for those loaded parts.
uint64_t bytes_of_runs(const Tenant& t, const Claim* more, const Session* mine,
                       const std::set<PartKey>* wanted);

// Returns the wish's claim if it holds its parts, as a world does, and a job whose parts stay. Any other job loads
// and releases them one after the other.
const Claim* claim_that_holds(const Wish& wish);
// Returns the parts of the tenant's claims, and of one more.
std::set<PartKey> wanted_parts(const Tenant& t, const Claim* more);

}  // namespace tachy
