// Processes, their locks, signals and streams behave as base/os promises for every system.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/os/folder.h"
#include "base/os/library.h"
#include "base/os/lock.h"
#include "base/os/map.h"
#include "base/os/process.h"
#include "base/os/signals.h"
#include "base/os/terminal.h"

namespace tachy::os {
namespace {

namespace fs = std::filesystem;

class OsProcesses : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tachyscope-os-XXXXXX").string();
    ASSERT_FALSE(make_unique_folder(name));
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  std::error_code error_;
};

TEST_F(OsProcesses, TheFileThatHoldsCodeIsKnownWhateverTheProgramWasStartedAs) {
  std::error_code error;
  EXPECT_EQ(Library::file_of(reinterpret_cast<const void*>(&executable_path)), executable_path(error));
  const auto runtime = Library::file_of(reinterpret_cast<const void*>(&std::strtol));
  EXPECT_TRUE(runtime.is_absolute()) << runtime;
  EXPECT_NE(runtime.filename().string().find("libc"), std::string::npos) << runtime;
  int local = 0;
  EXPECT_EQ(Library::file_of(&local), "");
}

TEST_F(OsProcesses, ALockHasOneHolderWhoTellsItsNumber) {
  const fs::path path = folder_ / "lock";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::error_code error;
    const File file = open_lock_file(path, error);
    const bool locked = try_lock(file) == LockResult::locked;
    tell_holder(file);
    if (::write(ready[1], locked ? "y" : "n", 1) == 1)
      for (;;) ::pause();
    std::_Exit(1);
  }
  char locked = 0;
  ASSERT_EQ(::read(ready[0], &locked, 1), 1);
  EXPECT_EQ(locked, 'y');
  const File file = open_lock_file(path, error_);
  ASSERT_TRUE(file) << error_.message();
  EXPECT_EQ(try_lock(file), LockResult::taken);
  EXPECT_EQ(told_holder(file, error_), child);
  EXPECT_FALSE(error_);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_exists(child));
  EXPECT_EQ(told_holder(file, error_), std::nullopt);
  EXPECT_EQ(try_lock(file), LockResult::locked);
  EXPECT_EQ(try_lock(open_lock_file(path, error_)), LockResult::taken);  // a second lock in the same process
                                                                         // is refused, too
  ::close(ready[0]), ::close(ready[1]);
}

TEST_F(OsProcesses, ALockedFileIsNoLink) {
  std::ofstream(folder_ / "theirs") << "text";
  fs::create_symlink("theirs", folder_ / "link");
  EXPECT_FALSE(open_lock_file(folder_ / "link", error_));
  EXPECT_EQ(error_, std::errc::too_many_symbolic_link_levels);
  EXPECT_FALSE(open_lock_file(folder_ / "none/lock", error_));
  EXPECT_EQ(error_, std::errc::no_such_file_or_directory);
}

TEST_F(OsProcesses, ThisProcessAndItsProgram) {
  EXPECT_EQ(process_id(), ::getpid());
  EXPECT_TRUE(process_exists(process_id()));
  EXPECT_TRUE(process_exists(1));  // the process may belong to another user
  const fs::path program = executable_path(error_);
  ASSERT_FALSE(error_);
  const FileFacts facts = executable_facts();
  EXPECT_EQ(facts.bytes, fs::file_size(program));
  EXPECT_TRUE(facts.regular);
  EXPECT_EQ(facts.modified_ns, File(program, OpenAs::input, error_).facts(error_).modified_ns);
}

TEST_F(OsProcesses, AnotherProgramInThisOnesPlace) {
  const fs::path out = folder_ / "out";
  const pid_t child = ::fork();
  if (child == 0) {
    become("/bin/sh", {"-c", "echo $$ \"$1\" > \"$2\"; exit 7", "sh", "two words", out.string()});
    std::_Exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  std::string line;
  std::getline(std::ifstream(out), line);
  EXPECT_EQ(line, std::to_string(child) + " two words");
  EXPECT_EQ(become(folder_ / "none", {}), std::errc::no_such_file_or_directory);
}

TEST_F(OsProcesses, AForkedChildIsTold) {
  static bool told = false;
  call_in_forked_child([] { told = true; });
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(told ? 7 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(told);
}

TEST_F(OsProcesses, ALibraryAndItsSymbols) {
  std::string why;
  EXPECT_FALSE(Library());
  EXPECT_FALSE(Library::open("libtachyscope-none.so", why));
  EXPECT_NE(why.find("libtachyscope-none.so"), why.npos) << why;
  EXPECT_FALSE(Library::loaded("libtachyscope-none.so"));
  const Library c = Library::open("libm.so.6", why);
  ASSERT_TRUE(c) << why;
  EXPECT_TRUE(Library::loaded("libm.so.6"));
  const auto floor = reinterpret_cast<double (*)(double)>(c.symbol("floor"));
  ASSERT_NE(floor, nullptr);
  EXPECT_EQ(floor(1.5), 1.0);
  EXPECT_EQ(c.symbol("tachyscope_none"), nullptr);
}

using OsSignals = OsProcesses;

TEST_F(OsSignals, AHandlerWakesAThread) {
  static Wakeup wakeup;
  ASSERT_TRUE(wakeup.open());
  std::atomic<int> woken{0};
  std::thread waiting([&] {
    for (; woken < 2; ++woken) wakeup.wait();
  });
  ::signal(SIGUSR1, [](int) { wakeup.wake(); });
  ::raise(SIGUSR1), ::raise(SIGUSR1);
  waiting.join();
  EXPECT_EQ(woken, 2);
  ::signal(SIGUSR1, SIG_DFL);
  Wakeup().wake();  // nobody waits, so nothing happens
}

TEST_F(OsSignals, FailedWritesAreErrors) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  EXPECT_EXIT(
      {
        make_failed_writes_errors();
        File file(ends[1]);
        std::_Exit(file.write("x", 1) == std::errc::broken_pipe ? 3 : 1);
      },
      testing::ExitedWithCode(3), "");
  EXPECT_EXIT((make_failed_writes_errors(), end_by_closed_pipe()), testing::KilledBySignal(SIGPIPE), "");
  ::close(ends[1]);
}

TEST_F(OsSignals, AFileThatWasCutShort) {
  const fs::path path = folder_ / "a";
  std::ofstream(path) << "text";
  static const volatile char* lost = nullptr;
  const auto read_lost = [&] {
    std::error_code error;
    const File file(path, OpenAs::input, error);
    const Mapping mapping = Mapping::of_file(file, 4, error);
    fs::resize_file(path, 0);
    lost = static_cast<const char*>(mapping.data()) + 1;
    std::_Exit(*lost);
  };
  EXPECT_EXIT(
      {
        on_unreadable_page([](const void* address) {
          write_to_standard_error("it is gone");
          std::_Exit(address == lost ? 3 : 1);
        });
        read_lost();
      },
      testing::ExitedWithCode(3), "it is gone");
  std::ofstream(path) << "text";
  EXPECT_EXIT((on_unreadable_page([](const void*) {}), read_lost()), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(OsSignals, WhoReadsAStream) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::FILE* const pipe = ::fdopen(ends[1], "w");
  EXPECT_FALSE(is_terminal(pipe));
  EXPECT_FALSE(reader_gone(pipe));
  ::close(ends[0]);
  EXPECT_TRUE(reader_gone(pipe));
  std::fclose(pipe);
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0) GTEST_SKIP() << "no terminals here";
  std::FILE* const stream = ::fdopen(terminal, "w");
  EXPECT_TRUE(is_terminal(stream));
  std::fclose(stream);
}

TEST_F(OsSignals, ClosedStandardStreamsGoToNoFile) {
  const fs::path path = folder_ / "a";
  EXPECT_EXIT(
      {
        ::close(STDOUT_FILENO);
        occupy_standard_streams();
        std::error_code error;
        const File file(path, OpenAs::new_file, error);
        const bool apart = file.handle() > STDERR_FILENO && ::write(STDOUT_FILENO, "x", 1) < 0;
        std::_Exit(apart && file.facts(error).bytes == 0 ? 3 : 1);
      },
      testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace tachy::os
