// A line on stderr that is no warning, such as which GPU a run takes. Once for each text; --quiet drops it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace tachy {

void say_line(std::string_view text);
// Whether a LineScope takes the lines of this thread. The threads of a pool then leave theirs to the one that they work for, which
// says them when they are done (base/thread_pool.h).
bool lines_are_taken();

// While it lives, the warnings and notices of this thread are told to `take` and not printed, each text once: those of a job belong to
// whoever asked for it. Texts name fields in backticks; how these are spelled is for `take` to say. Scopes nest; a line that is said
// inside `take` goes to the scope around this one.
class LineScope {
 public:
  explicit LineScope(std::function<void(std::string_view text)> take);
  ~LineScope();
  LineScope(const LineScope&) = delete;
  LineScope& operator=(const LineScope&) = delete;

 private:
  friend void say_line(std::string_view text);
  void told(std::string_view text);

  std::function<void(std::string_view)> take_;
  std::set<std::string, std::less<>> seen_;
  LineScope* around_;
};

}  // namespace tachy
