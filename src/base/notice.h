// Prints a line on stderr that is not a warning, such as which GPU a run uses. Each text is printed once, and
// --quiet drops it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace tachy {

void say_line(std::string_view text);
// Says whether a LineScope takes this thread's lines. If so, a pool's threads hand their lines to the thread
// for which they work, and it reports them when they are done (base/thread_pool.h).
bool lines_are_taken();

// While it lives, this thread's warnings and notices are passed to `take` and not printed, each text once. So
// the caller that asked for a job gets the job's lines. Texts name fields in backticks, which `take` may
// spell in its own way. Scopes nest: a line that is logged inside `take` goes to the next outer scope.
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
