// Tests --without, --no-arena and --nvtx as a user sees them: other code paths give the same video, and
// settings and plans say what was switched off.
#include <map>
#include <nlohmann/json.hpp>

#include "binary.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Switches : public CliTest {
 protected:
  std::vector<std::string> short_run(std::vector<std::string> more) const {
    std::vector<std::string> args = {"a red cat", "--size", "32x16", "-f", "5", "--steps", "3"};
    args.insert(args.end(), more.begin(), more.end());
    return generate(args);
  }
  json settings(const std::string& file) { return json::parse(read_text(path(file))); }
  json plan(std::vector<std::string> more) {
    more.insert(more.end(), {"--plan", "--json"});
    const Done done = run(short_run(more));
    EXPECT_EQ(done.code, 0) << done.err;
    return json::parse(done.out);
  }
};

json state(const json& plan, const std::string& name) {
  for (const json& s : plan.at("optimisations"))
    if (s.at("name") == name) return s;
  ADD_FAILURE() << name << " is not in the plan";
  return {};
}

TEST_F(Switches, AreInTheSettingsAndARunRepeatsThem) {
  ASSERT_EQ(run(short_run({"-o", "all.gif"})).code, 0);
  const Done off =
      run(short_run({"--without", "fused-norms,few-keys", "--without=attention:cpu", "-o", "off.gif"}));
  ASSERT_EQ(off.code, 0) << off.err;
  const json said = json::array({"fused-norms", "few-keys", "attention:cpu"});
  EXPECT_EQ(settings("off.json").at("without"), said);
  EXPECT_FALSE(settings("all.json").contains("without")) << "settings of other runs are as they were";
  ASSERT_EQ(run({"generate", "--from", "off.json", "-t", "2", "-o", "again.gif"}).code, 0);
  EXPECT_EQ(settings("again.json").at("without"), said);
  EXPECT_EQ(read_text(path("again.gif")), read_text(path("off.gif")));
  const Done back =
      run({"generate", "--from", "off.json", "--without", "nothing", "-t", "2", "-o", "back.gif"});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_FALSE(settings("back.json").contains("without"));
}

TEST_F(Switches, APlanAndTheDoctorListThem) {
  const json all = plan({"--guidance", "5"}), off = plan({"--guidance", "5", "--without", "fused-norms"});
  EXPECT_TRUE(state(all, "fused-norms").at("on"));
  EXPECT_FALSE(state(off, "fused-norms").at("on"));
  EXPECT_EQ(state(off, "fused-norms").at("why"), "--without names it");
  EXPECT_EQ(state(off, "fused-norms").at("off"), "--without fused-norms");
  EXPECT_TRUE(state(off, "fused-rope").at("on"));
  EXPECT_TRUE(state(all, "batched-guidance").at("on"));
  EXPECT_FALSE(state(plan({"--guidance", "1"}), "batched-guidance").at("on"));
  EXPECT_FALSE(state(all, "step-cache").at("on"));
  EXPECT_TRUE(state(plan({"--level", "extreme", "--steps", "4"}), "step-cache").at("on"));
  const json few = state(plan({"--level", "extreme", "--steps", "3"}), "step-cache");
  EXPECT_FALSE(few.at("on"));
  EXPECT_EQ(few.at("why"), "with so few steps all are computed");
  EXPECT_FALSE(
      state(plan({"--level", "extreme", "--steps", "4", "--without", "step-cache"}), "step-cache").at("on"));
  EXPECT_FALSE(state(all, "graphs").at("on")) << "on a CPU";
  EXPECT_TRUE(state(all, "attention:cpu").at("on"));
  for (const json& s : all.at("optimisations")) {
    EXPECT_FALSE(s.at("why").get<std::string>().empty()) << s;
    EXPECT_FALSE(s.at("worth").get<std::string>().empty()) << s;
  }
  const Done text = run(short_run({"--plan", "--without", "fused-rope"}));
  EXPECT_THAT(text.out, AllOf(HasSubstr("fused-rope"), HasSubstr("off  --without names it"),
                              HasSubstr("tachyscope bench --optimisations"), Not(HasSubstr("`"))))
      << text.err;
}

TEST_F(Switches, UnknownNamesAreRefusedWithWhatThereIs) {
  const Done done = run(short_run({"--without", "fused-norm", "-o", "x.gif"}));
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err,
              AllOf(HasSubstr("--without: expected batched-guidance, few-keys"), HasSubstr("'fused-norm'")));
}

TEST_F(Switches, NoArenaGivesTheSameVideo) {
  ASSERT_EQ(run(short_run({"-o", "with.gif"})).code, 0);
  const Done done = run(short_run({"--no-arena", "-o", "without.gif"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(read_text(path("without.gif")), read_text(path("with.gif")));
}

// The table of `bench --optimisations` on the tiny model lists everything that is on, and its figures are
// ratios.
TEST_F(Switches, BenchMeasuresThem) {
  const Done done = run({"bench", "--optimisations", "-m", model_path(), "--rounds", "1", "--device", "cpu",
                         "-t", "2", "--level", "extreme", "--size", "48x32", "--json", "-o", "table.json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const json table = json::parse(done.out);
  EXPECT_EQ(json::parse(read_text(path("table.json"))), table);
  EXPECT_THAT(table.at("size").get<std::string>(), testing::EndsWith("x32x48"));
  std::set<std::string> names;
  for (const json& gain : table.at("optimisations")) {
    names.insert(gain.at("name"));
    EXPECT_GT(gain.at("with_others").get<double>(), 0);
    EXPECT_GT(gain.at("alone").get<double>(), 0);
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"batched-guidance", "few-keys", "joined-qkv", "fused-norms",
                                            "fused-rope", "fused-activations", "step-cache"}));
  EXPECT_GT(table.at("together").get<double>(), 0);
  const Done refused = run({"bench", "--optimisations", "--ops-only"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--optimisations"));
}

#ifdef TACHY_NVTX_STUB

struct Ranges {
  std::map<std::string, int> begun;  // by name
  int left_open = 0, ended_unbegun = 0;
};

// Reads the lines of nvtx_stub.c, which have the thread, then + and a name, or -.
Ranges read_ranges(const std::string& text) {
  Ranges out;
  std::map<std::string, int> depth;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t sign = line.find(' ') + 1;
    const std::string thread = line.substr(0, sign);
    if (line[sign] == '+')
      ++out.begun[line.substr(sign + 1)], ++depth[thread];
    else if (--depth[thread] < 0)
      ++out.ended_unbegun;
  }
  for (const auto& [thread, open] : depth) out.left_open += open;
  return out;
}

class Nvtx : public Switches {
 protected:
  void SetUp() override {
    Switches::SetUp();
    setenv("NVTX_INJECTION64_PATH", TACHY_NVTX_STUB, 1);
    setenv("TACHY_TEST_NVTX", path("ranges.txt").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("NVTX_INJECTION64_PATH"), unsetenv("TACHY_TEST_NVTX");
    Switches::TearDown();
  }
};

TEST_F(Nvtx, RangesOfStagesStepsAndBlocksArePushedAndPopped) {
  const Done done = run(short_run({"--nvtx", "-o", "x.gif"}));
  ASSERT_EQ(done.code, 0) << done.err;
  const Ranges ranges = read_ranges(read_text(path("ranges.txt")));
  for (const char* name : {"denoise", "decode", "step 0", "step 1", "step 2"})
    EXPECT_EQ(ranges.begun.contains(name) ? ranges.begun.at(name) : 0, 1) << name;
  EXPECT_EQ(ranges.begun.at("transformer"), 3);
  EXPECT_EQ(ranges.begun.at("block 1"), 3) << "each block of each step";
  EXPECT_EQ(ranges.left_open, 0);
  EXPECT_EQ(ranges.ended_unbegun, 0);
  fs::remove(path("ranges.txt"));
  ASSERT_EQ(run(short_run({"-o", "y.gif"})).code, 0);
  EXPECT_FALSE(fs::exists(path("ranges.txt"))) << "nobody asked";
  EXPECT_EQ(read_text(path("x.gif")), read_text(path("y.gif")));
}

TEST_F(Nvtx, BesideAProfile) {
  const Done done = run(short_run({"--nvtx", "--profile", "p.json", "-o", "x.gif"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(read_ranges(read_text(path("ranges.txt"))).begun.at("step 2"), 1);
  EXPECT_THAT(read_text(path("p.json")), HasSubstr("step"));
}

#else

TEST_F(Switches, NvtxIsRefusedWhereTheBuildHasNone) {
  const Done done = run(short_run({"--nvtx", "-o", "x.gif"}));
  EXPECT_EQ(done.code, 5) << done.err;
  EXPECT_THAT(done.err, HasSubstr("--nvtx: this build has no NVTX ranges"));
}

#endif

}  // namespace
}  // namespace tachy::test
