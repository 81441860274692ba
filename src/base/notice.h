// Prints a line on stderr that is not a warning, such as which GPU a run takes. Each text is printed once;
// --quiet drops it.
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

// While it lives, this thread's warnings and notices go to `take` instead of being printed, each text once:
// those of a job belong to the caller that asked for it. Texts name fields in backticks, which `take` may
// spell in its own way. Scopes nest; a line that is logged inside `take` goes to the scope around this one.
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
