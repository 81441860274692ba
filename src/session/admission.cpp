#include "session/admission.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/env.h"
#include "base/log.h"
#include "cuda/gpu.h"

namespace tachy {
namespace {

constexpr std::chrono::milliseconds kLook{20};  // between two looks at flags

}  // namespace

std::shared_ptr<Admission> Admission::of(const cuda::Gpu* gpu, const DeviceMemory* memory) {
  using Key = std::pair<int, const DeviceMemory*>;  // a GPU's index, or -1 and the test's device
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<Admission>> all;
  const Key key = gpu ? Key{gpu->info().index, nullptr} : Key{-1, memory};
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Admission> there = all[key].lock();
  if (!there) all[key] = there = std::make_shared<Admission>();
  return there;
}

// A waiter's place in the line, which is given up however the waiting ends.
class Admission::InLine {
 public:
  InLine(Admission& admission, const StopFlags& stop)
      : admission_(admission), place_(admission.line_.insert(admission.line_.end(), stop)) {}
  ~InLine() {
    admission_.line_.erase(place_);
    admission_.changed_.notify_all();  // now it is the next one's turn
  }
  InLine(const InLine&) = delete;
  InLine& operator=(const InLine&) = delete;
  // Says whether it is this one's turn: it is not held, and all before it are.
  bool first() const {
    for (auto place = admission_.line_.begin(); place != place_; ++place)
      if (!place->held()) return false;
    return !place_->held();
  }
  bool watches() const {
    return place_->cancel || std::any_of(admission_.line_.begin(), std::next(place_),
                                         [](const StopFlags& one) { return one.hold != nullptr; });
  }

 private:
  Admission& admission_;
  std::list<StopFlags>::iterator place_;
};

void Admission::wait_turn(Lock& lock, const Tenant& tenant, const StopFlags& stop,
                          const std::function<bool()>& may, uint64_t bytes) {
  if (const Tenant* const here = tenants_.computing_here()) {
    check(may(), ErrorCode::unsupported,
          "this was called in a callback of a run {}, and would have to wait for that run",
          here == &tenant ? "of the same model" : "on the same device");
    return;
  }
  const InLine me(*this, stop);
  for (bool waited = false; !me.first() || !may(); waited = true) {
    if (!waited)
      log_topic("plan", "waiting with {} beside {} jobs, {} in line before", human_bytes(bytes),
                tenants_.runs(), line_.size() - 1);
    if (me.watches())
      changed_.wait_for(lock, kLook);
    else
      changed_.wait(lock);
    stop.throw_if_cancelled();
  }
}

Admission::Place Admission::enter(Lock& lock, const Wish& wish, const StopFlags& stop) {
  Tenant& tenant = *wish.tenant;
  tenants_.check_alone(tenant, *wish.plan, &wish.claim);
  const auto may = [&] {
    const bool one = tenant.model->one_at_a_time();
    if ((!one || tenant.claims.empty()) && tenants_.make_room(wish)) return true;
    if (tenants_.runs() > 0) return false;
    // Nothing is left that will end or can be dropped, so the run fits, unless a world was opened while it
    // waited.
    tenants_.check_alone(tenant, *wish.plan, &wish.claim);
    return true;
  };
  wait_turn(lock, tenant, stop, may, wish.claim.peak);
  return tenant.claims.insert(tenant.claims.end(), wish.claim);
}

bool Admission::would_enter(const Wish& wish) {
  const bool alone = !wish.tenant->model->one_at_a_time() || wish.tenant->claims.empty();
  const bool first = std::ranges::all_of(line_, [](const StopFlags& other) { return other.held(); });
  return first && alone && tenants_.would_fit(wish);
}

Admission::Place Admission::enter_to_plan(Lock& lock, Tenant& tenant) {
  if (tenant.model->one_at_a_time())
    wait_turn(
        lock, tenant, {}, [&] { return tenant.claims.empty(); }, 0);
  return tenant.claims.insert(tenant.claims.end(), {.of = Claim::Of::plan});
}

void Admission::leave(Lock&, Tenant& tenant, Place place) {
  tenant.claims.erase(place);
  changed_.notify_all();
}

void Admission::settle(Lock&, const Tenant& tenant, Place place) {
  place->thread = {};
  if (!tenant.model->options().waits_for_worlds) place->of = Claim::Of::world;
  changed_.notify_all();
}

size_t Admission::waiting() {
  const Lock held = lock();
  return line_.size();
}

Tenancy::Tenancy(Model& model)
    : admission_(Admission::of(model.gpu(), model.memory())), tenant_{.model = &model} {
  const Admission::Lock lock = admission_->lock();
  admission_->tenants().add(tenant_);
}

Tenancy::~Tenancy() {
  const Admission::Lock lock = admission_->lock();
  admission_->tenants().remove(tenant_);
}

Budget Tenancy::budget(uint64_t libraries) const {
  const Admission::Lock lock = admission_->lock();
  return admission_->tenants().budget(tenant_, libraries);
}

void Tenancy::check_memory(const VideoPlan& plan) const {
  const Admission::Lock lock = admission_->lock();
  admission_->tenants().check_alone(tenant_, plan, nullptr);
}

}  // namespace tachy
