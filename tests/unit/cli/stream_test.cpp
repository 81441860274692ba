// Tests streamed videos: they have the same frames as without streaming, the file plays while it grows, and
// mp4 goes to standard output.
#include "base/error.h"
#include "binary.h"
#include "media/video/video_reader.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class Streaming : public CliTest {
 protected:
  // Counts the frames that can be read, even from a truncated file.
  static int count(const fs::path& file) {
    const auto reader = VideoReader::open(file);
    RgbFrame frame;
    int n = 0;
    try {
      while (reader->read(frame)) ++n;
    } catch (const Error&) {  // the file was truncated
    }
    return n;
  }
};

TEST_F(Streaming, PlaysWhileItGrows) {
  ASSERT_EQ(run(generate({"a red cat", "-f", "69", "--size", "64x32", "--stream", "-o", "a.mp4", "-q"})).code,
            0);
  EXPECT_EQ(files(), (std::set<std::string>{"a.mp4", "a.json"}));
  const std::string settings = read_text(path("a.json"));
  EXPECT_THAT(settings, AllOf(HasSubstr("self-forcing-4"), HasSubstr("\"causal_block\": 3")));
  const std::string whole = read_text(path("a.mp4"));
  EXPECT_EQ(count(path("a.mp4")), 69);
  int last = 0;
  for (int part = 1; part < 4; ++part) {
    write("part.mp4", whole.substr(0, whole.size() * static_cast<size_t>(part) / 4));
    const int seen = count(path("part.mp4"));
    EXPECT_GT(seen, last + 8) << part << " of 4 quarters";
    last = seen;
  }
  const Done piped = run(generate({"a red cat", "-f", "69", "--size", "64x32", "--stream", "-o", "-"}));
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_THAT(piped.err, HasSubstr("69 frames"));
  write("piped.mp4", piped.out);
  EXPECT_EQ(count(path("piped.mp4")), 69);
  EXPECT_FALSE(fs::exists(path("-.json")));
}

// `--block 0` also says how to make the video, so it differs from a value that is filled in if nothing was
// said.
TEST_F(Streaming, TheWholeClipAtOnceWhereThatIsAskedFor) {
  ASSERT_EQ(run(generate({"a red cat", "-f", "5", "--size", "64x32", "--steps", "2", "--stream", "--block",
                          "0", "-o", "a.mp4", "-q"}))
                .code,
            0);
  const std::string settings = read_text(path("a.json"));
  EXPECT_THAT(settings, Not(AnyOf(HasSubstr("self-forcing-4"), HasSubstr("causal_block"))));
  EXPECT_EQ(count(path("a.mp4")), 5);
}

// The first frames are in the file long before the last block is made.
TEST_F(Streaming, FramesLeaveWithTheirBlock) {
  const pid_t child =
      start(generate({"a red cat", "-f", "1005", "--size", "64x64", "--stream", "-o", "a.mp4", "-q"}));
  int early = 0;
  for (int i = 0; i < 3000 && early == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, WNOHANG), 0) << "it was over before a frame was seen";
    if (!fs::exists(path("a.mp4"))) continue;
    fs::copy_file(path("a.mp4"), path("copy.mp4"), fs::copy_options::overwrite_existing);
    try {
      early = count(path("copy.mp4"));
    } catch (const Error&) {  // the header is not there yet
    }
  }
  EXPECT_GT(early, 0);
  EXPECT_LT(early, 900);
  kill(child, SIGINT);
  EXPECT_EQ(finish(child).code, 130);
  EXPECT_GE(count(path("a.mp4")), early) << "what was made stays";
}

TEST_F(Streaming, OnlyMp4AndNoResuming) {
  const Done webm = run(generate({"x", "-f", "9", "--stream", "-o", "a.webm"}));
  EXPECT_EQ(webm.code, 2);
  EXPECT_THAT(webm.err, AllOf(HasSubstr("a.webm"), HasSubstr("mp4")));
  EXPECT_THAT(run(generate({"x", "-f", "9", "--stream", "--resume", "-o", "a.mp4"})).err,
              HasSubstr("--resume"));
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace tachy::test
