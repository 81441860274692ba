// The loaded parts of a model, for all sessions. Whoever needs a part gets the one that is there; the first
// one to need it loads it while others wait. A part lives as long as somebody holds it, or longer if it is
// kept.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "base/stop_flags.h"
#include "session/parts.h"

namespace tachy {

// Parts with equal keys are interchangeable: the same weights, prepared for the same way of computing.
struct PartKey {
  Part part = Part::text;
  DType activation = DType::f32;
  Compute compute = Compute::f32;
  Products products = Products::as_activations;
  bool joined = true;      // for transformers: Precision::joined
  std::string adapters;    // those that are merged into it (request_adapters.h)
  bool keys_stay = false;  // for transformers: as Placement::keys_stay
  // `vae` is the format in which the VAE's residual blocks multiply (session/vae_math.h).
  PartKey(Part which, const Precision& precision, std::string merged = {},
          Products vae = Products::as_activations, bool stay = false)
      : part(which),
        activation(precision.activation),
        compute(precision.compute),
        products(which == Part::transformer || which == Part::transformer_2 ? weights_of(precision.products)
                 : which == Part::vae_encoder || which == Part::vae_decoder ? vae
                                                                            : Products::as_activations),
        joined(precision.joined || (which != Part::transformer && which != Part::transformer_2)),
        adapters(std::move(merged)),
        keys_stay(stay && (which == Part::transformer || which == Part::transformer_2)) {}
  auto operator<=>(const PartKey&) const = default;
  bool made_for(const Precision& precision) const {
    return *this == PartKey(part, precision, adapters, products, keys_stay);
  }
};

class PartCache {
 public:
  using Handle = std::shared_ptr<const LoadedPart>;
  using Load = std::function<Handle()>;

  // With `keep`, the part stays when nobody holds it any more. Throws what `load` throws, and cancelled if
  // `stop` says so while another thread loads.
  Handle get(const PartKey& key, bool keep, const StopFlags& stop, const Load& load);
  // Returns how many wait until another thread has loaded the part, without those that are held. The number lives as
  // long as the cache.
  const std::atomic<int>& awaited(const PartKey& key);

  // Returns the bytes of the parts that are kept and that nobody holds.
  uint64_t idle_bytes(const std::set<PartKey>& except) const;
  void drop_idle(const std::function<bool(const PartKey&)>& which);

  uint64_t held_bytes() const;  // bytes that all loaded parts hold

 private:
  struct Entry {
    Handle kept;
    std::weak_ptr<const LoadedPart> last;
    bool loading = false;
    std::atomic<int> awaited{0};
  };
  static bool idle(const Entry& entry) { return entry.kept && entry.kept.use_count() == 1; }

  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  std::map<PartKey, Entry> entries_;
};

}  // namespace tachy
