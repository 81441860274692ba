// Ranks as threads of this process, whose tensors lie on the host: what several GPUs would exchange, without any.
#pragma once

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/comm.h"

namespace tachy::test {

class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : size_(size), shown_(static_cast<size_t>(size)), barrier_(size) {}

  // body(comm) in a thread for each rank; all must make the same exchanges.
  void run(const std::function<void(runtime::Comm&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        Rank comm(*this, rank);
        body(comm);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  class Rank final : public runtime::Comm {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_.size_; }

   private:
    // read(p, data): what rank p shows, while it stays as it is.
    void meet(const void* mine, const std::function<void(int, const char*)>& read) {
      all_.shown_[static_cast<size_t>(rank_)] = static_cast<const char*>(mine);
      all_.barrier_.arrive_and_wait();
      for (int p = 0; p < size(); ++p) read(p, all_.shown_[static_cast<size_t>(p)]);
      all_.barrier_.arrive_and_wait();
    }
    void exchange(const Tensor& from, const Tensor& to, Stream&) override {
      const auto part = static_cast<size_t>(from.bytes() / size());
      meet(from.data, [&](int p, const char* data) {
        std::memcpy(static_cast<char*>(to.data) + static_cast<size_t>(p) * part,
                    data + static_cast<size_t>(rank_) * part, part);
      });
    }
    void gather(const Tensor& part, const Tensor& whole, Stream&) override {
      const auto bytes = static_cast<size_t>(part.bytes());
      meet(part.data, [&](int p, const char* data) {
        std::memcpy(static_cast<char*>(whole.data) + static_cast<size_t>(p) * bytes, data, bytes);
      });
    }
    void sum(const Tensor& x, Stream&) override {
      std::vector<float> total(static_cast<size_t>(x.numel()), 0.0f);
      meet(x.data, [&](int, const char* data) {
        const auto* values = reinterpret_cast<const float*>(data);
        for (size_t i = 0; i < total.size(); ++i) total[i] += values[i];
      });
      std::copy(total.begin(), total.end(), x.as<float>());
      all_.barrier_.arrive_and_wait();
    }
    void send(const Tensor& x, int root, Stream&) override {
      meet(x.data, [&](int p, const char* data) {
        if (p == root && rank_ != root) std::memcpy(x.data, data, static_cast<size_t>(x.bytes()));
      });
    }

    ThreadRanks& all_;
    int rank_;
  };

  int size_;
  std::vector<const char*> shown_;
  std::barrier<> barrier_;
};

}  // namespace tachy::test
