// Pictures whose rows are divided among ranks in bands, the topmost rows on rank 0. Frames of a rank are
// [T, rows, W, C] with the rows of its band and, where the picture goes on, one row more above and below:
// those of its neighbours. A 3x3 convolution of such frames gives the band's rows as in the whole picture;
// the two outer rows of its result mean nothing until they are exchanged again.
//
// Bands are cut between units: rows of the coarsest picture that a network makes. A picture of another
// resolution has the same bands, scaled.
#pragma once

#include <vector>

#include "runtime/comm.h"

namespace tachy::runtime {

class Bands {
 public:
  Bands() = default;  // one rank has all rows
  // At most `units` ranks. `comm` may be null if nothing will be exchanged.
  Bands(int rank, int ranks, int64_t units, Comm* comm = nullptr);
  Bands(Comm* comm, int64_t units) : Bands(comm ? comm->rank() : 0, comm ? comm->size() : 1, units, comm) {}

  bool divided() const { return ranks_ > 1; }
  bool first() const { return rank_ == 0; }
  int64_t units() const { return units_; }
  int64_t above() const { return rank_ > 0 ? 1 : 0; }           // rows of the neighbour above
  int64_t below() const { return rank_ + 1 < ranks_ ? 1 : 0; }  // and of the one below
  // The rank's rows of a picture that has `all` rows, a multiple of the units.
  Share rows(int64_t all) const { return rows_of(all, rank_); }
  // How many rows of such a picture the rank's frames have, with its neighbours' rows.
  int64_t held(int64_t all) const { return rows(all).count() + above() + below(); }
  // The band of a rank's frames, without its neighbours' rows.
  Tensor own(const Tensor& x) const { return x.slice(1, above(), x.dim(1) - below()); }

  // Waits for all ranks in a profiled run (Comm::line_up).
  void line_up(Stream& stream) const {
    if (divided() && comm_) comm_->line_up(stream);
  }
  // Where rows of up to so many bytes arrive, alternately in two places for each neighbour, if the ranks exchange views:
  // mail_bytes() of memory at `mail`. Without it, ranks wait for one another more often.
  size_t mail_bytes(size_t row_bytes) const {
    return divided() && comm_ && comm_->moves_views() ? 4 * align_up(row_bytes) : 0;
  }
  void set_mail(void* mail, size_t row_bytes) {
    mail_ = static_cast<char*>(mail), row_bytes_ = align_up(row_bytes);
  }
  bool has_mail() const { return mail_ != nullptr; }
  // Writes the neighbours' rows into x. x has values of 4 bytes, or of 2 on a GPU, or codes of a byte in a
  // multiple of 4 channels.
  void exchange(const Tensor& x, Stream& stream) const;
  // Sends each rank its rows of `whole` [T, H, W, C], with its neighbours' rows, from rank 0. The others' whole
  // only has a shape.
  void hand_out(const Tensor& whole, const Tensor& x, Stream& stream) const;
  // The inverse: rank 0 gets the whole picture. `band` is contiguous. The others' whole only has a shape.
  void collect(const Tensor& band, const Tensor& whole, Stream& stream) const;
  // Gives the whole picture to every rank. `band` is contiguous.
  void share(const Tensor& band, const Tensor& whole, Stream& stream) const;

 private:
  void exchange_views(const Tensor& x, Stream& stream) const;
  Share rows_of(int64_t all, int rank) const;
  Tensor band_of(const Tensor& whole, int rank) const;
  std::vector<Tensor> places_of(const Tensor& band, const Tensor& whole, Stream& stream) const;
  void put(std::span<const Tensor> places, const Tensor& whole, Stream& stream) const;

  int rank_ = 0, ranks_ = 1;
  int64_t units_ = 1;
  Comm* comm_ = nullptr;
  char* mail_ = nullptr;
  size_t row_bytes_ = 0;
  mutable int64_t exchanges_ = 0;
};

}  // namespace tachy::runtime
