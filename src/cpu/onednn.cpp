// oneDNN behind TileKernel. Differences between 2.x (descriptors are separate structs) and 3.x (primitive
// descriptors take the engine first) stay inside make_conv.
#include "cpu/onednn.h"

#include <array>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "cpu/isa.h"
#include "tensor/memory.h"

extern "C" void omp_set_num_threads(int);  // see base/thread_pool.cpp

namespace tachy::cpu {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

const dnnl::engine& engine() {
  isa();  // throws if the library could not be limited
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& stream() {
  thread_local dnnl::stream stream = [] {
    omp_set_num_threads(1);  // calls from outside the pool must not start a team, either
    return dnnl::stream(engine());
  }();
  return stream;
}

memory::desc plain(const Dims& dims, Tag tag) { return memory::desc(dims, memory::data_type::f32, tag); }

memory view(const memory::desc& desc, const void* data) {
  return memory(desc, engine(), const_cast<void*>(data));
}

// Keeps the library's exceptions inside this file.
template <class F>
auto guarded(const char* what, F&& f) {
  // A primitive remembers how many threads it was made for, and a plan makes them before the pool has run.
  omp_set_num_threads(1);
  try {
    return f();
  } catch (const dnnl::error& e) {
    const bool memory_ran_out = e.status == dnnl_out_of_memory;
    fail(memory_ran_out ? ErrorCode::out_of_memory : ErrorCode::internal, "onednn: {}: {}", what, e.what());
  }
}

dnnl::primitive_attr attributes(bool accumulate) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  return attr;
}

dnnl::convolution_forward::primitive_desc make_conv(const ConvShape& s, const memory::desc& weights) {
  const auto x = plain({1, s.ci, s.h, s.w}, Tag::nhwc), y = plain({1, s.co, s.out_h(), s.out_w()}, Tag::nhwc);
  const auto bias = s.bias ? plain({s.co}, Tag::a) : memory::desc();
  const Dims strides{s.stride, s.stride}, before{s.pad_top, s.pad_left}, after{s.pad_bottom, s.pad_right};
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  dnnl::convolution_forward::primitive_desc pd(engine(), kind, algorithm, x, weights, bias, y, strides,
                                               before, after, attributes(s.accumulate));
#else
  const dnnl::convolution_forward::desc desc =
      s.bias ? dnnl::convolution_forward::desc(kind, algorithm, x, weights, bias, y, strides, before, after)
             : dnnl::convolution_forward::desc(kind, algorithm, x, weights, y, strides, before, after);
  dnnl::convolution_forward::primitive_desc pd(desc, attributes(s.accumulate), engine());
#endif
  // 2.6's SSE4.1 code faults on outputs that are not 16-byte aligned; the next
  // implementation (im2col) does not.
  while (std::string_view(pd.impl_info_str()).find("sse41") != std::string_view::npos && pd.next_impl()) {
  }
  return pd;
}

void reorder(const memory::desc& from, const void* source, const memory::desc& to, void* target) {
  guarded("reorder", [&] {
    memory a = view(from, source), b = view(to, target);
    dnnl::reorder(a, b).execute(stream(), a, b);
    stream().wait();
  });
}

class Kernel final : public TileKernel {
 public:
  // `stored` is the format of the caller's weights; if the primitive needs another, they are reordered.
  template <class PrimitiveDesc>
  Kernel(const PrimitiveDesc& pd, const memory::desc& stored, int64_t bias_size)
      : primitive_(pd),
        impl_(pd.impl_info_str()),
        x_(pd.src_desc()),
        y_(pd.dst_desc()),
        weights_(pd.weights_desc()),
        stored_(stored),
        scratchpad_(pd.scratchpad_desc()),
        has_bias_(bias_size > 0),
        reorders_(!(pd.weights_desc() == stored)) {
    if (has_bias_) bias_ = plain({bias_size}, Tag::a);
  }

  const std::string& impl() const override { return impl_; }

  int64_t scratch_bytes() const override {
    return static_cast<int64_t>(align_up(scratchpad_.get_size()) +
                                (reorders_ ? align_up(weights_.get_size()) : 0));
  }

  void run(const float* x, const void* weights, const float* bias, float* y, void* scratch) const override {
    if (reorders_) {
      void* packed = static_cast<char*>(scratch) + align_up(scratchpad_.get_size());
      reorder(stored_, weights, weights_, packed);
      weights = packed;
    }
    guarded("execute", [&] {
      std::unordered_map<int, memory> args;
      args.emplace(DNNL_ARG_SRC, view(x_, x));
      args.emplace(DNNL_ARG_WEIGHTS, view(weights_, weights));
      args.emplace(DNNL_ARG_DST, view(y_, y));
      args.emplace(DNNL_ARG_SCRATCHPAD, view(scratchpad_, scratch));
      if (has_bias_) args.emplace(DNNL_ARG_BIAS, view(bias_, bias));
      primitive_.execute(stream(), args);
      stream().wait();
    });
  }

 private:
  dnnl::primitive primitive_;
  std::string impl_;
  memory::desc x_, y_, weights_, stored_, scratchpad_, bias_;
  bool has_bias_, reorders_;
};

// A shared map from a shape to a value that is made at its first use.
template <class Key, class Value>
class Cache {
 public:
  template <class Make>
  const Value& get(const Key& key, Make&& make) {
    {
      std::shared_lock lock(mutex_);
      if (const auto it = map_.find(key); it != map_.end()) return *it->second;
    }
    auto made = std::make_unique<Value>(make());
    std::unique_lock lock(mutex_);
    return *map_.try_emplace(key, std::move(made)).first->second;
  }

 private:
  std::shared_mutex mutex_;
  std::map<Key, std::unique_ptr<Value>> map_;
};

// The format is determined with a typical tile: a band of 8 rows of 32 pixels.
const memory::desc& conv_format(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w) {
  static Cache<std::array<int64_t, 4>, memory::desc> cache;
  return cache.get({co, ci, kernel_h, kernel_w}, [&] {
    return guarded("convolution format", [&] {
      const ConvShape shape{.h = 8 + kernel_h - 1,
                            .w = 32 + kernel_w - 1,
                            .ci = ci,
                            .co = co,
                            .kernel_h = kernel_h,
                            .kernel_w = kernel_w,
                            .stride = 1};
      return make_conv(shape, plain({co, ci, kernel_h, kernel_w}, Tag::any)).weights_desc();
    });
  });
}

bool is_ref(const char* impl) { return std::string_view(impl).starts_with("ref"); }

}  // namespace

const TileKernel& conv_kernel(const ConvShape& s) {
  static Cache<ConvShape, Kernel> cache;
  return cache.get(s, [&] {
    return guarded("convolution", [&] {
      const memory::desc& stored = conv_format(s.co, s.ci, s.kernel_h, s.kernel_w);
      const auto pd = make_conv(s, stored);
      if (!is_ref(pd.impl_info_str())) return Kernel(pd, stored, s.bias ? s.co : 0);
      return Kernel(make_conv(s, plain({s.co, s.ci, s.kernel_h, s.kernel_w}, Tag::any)), stored,
                    s.bias ? s.co : 0);
    });
  });
}

int64_t packed_conv_bytes(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w) {
  return static_cast<int64_t>(align_up(conv_format(co, ci, kernel_h, kernel_w).get_size()));
}

void pack_conv(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w, const float* weights,
               void* packed) {
  reorder(plain({co, ci, kernel_h, kernel_w}, Tag::oihw), weights, conv_format(co, ci, kernel_h, kernel_w),
          packed);
}

void unpack_conv(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w, const void* packed,
                 float* plain_out) {
  reorder(conv_format(co, ci, kernel_h, kernel_w), packed, plain({co, ci, kernel_h, kernel_w}, Tag::hwio),
          plain_out);
}

}  // namespace tachy::cpu
