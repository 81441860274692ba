// Tests checkpoints of training (tests/golden/weights/make_checkpoints.py): the model lies among an
// optimizer, averaged weights, a critic, configs and states of random generators. None of these is executed
// or mistaken for weights.
#include "support.h"
#include "weights/names/rename.h"
#include "weights/scope.h"
#include "weights/torch/pickle_globals.h"
#include "weights/torch/torch_zip.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Opened {
  std::shared_ptr<TensorSource> source;
  std::string said;
};
// Opens a copy under another name, because each warning is given only once.
Opened open_said(const std::string& name, const std::string& copy) {
  static const TempFolder folder;
  fs::copy_file(golden(name), folder / copy);
  testing::internal::CaptureStderr();
  Opened out{open_weights(folder / copy), ""};
  out.said = testing::internal::GetCapturedStderr();
  return out;
}

std::vector<std::string> names(const TensorSource& source) {
  std::vector<std::string> out;
  for (const auto& entry : source.entries()) out.push_back(entry.name);
  return out;
}

TEST(Checkpoint, AveragedWeightsOfSeveralAndTheChoiceIsSaid) {
  const Opened dmd = open_said("checkpoint_dmd.pth", "dmd.pth");
  EXPECT_THAT(names(*dmd.source), testing::ElementsAre("model.x", "model.y"));
  EXPECT_EQ(element<float>(*dmd.source->find("model.x"), 0), ramp(0) + 1);
  EXPECT_THAT(dmd.said,
              AllOf(HasSubstr("dmd.pth"), HasSubstr("\"generator_ema\" is taken"), HasSubstr("\"generator\""),
                    HasSubstr("torch.save(torch.load(path)[\"generator\"]")));
}

TEST(Checkpoint, TheModelBesideWhatIsNoTensor) {
  const Opened lightning = open_said("checkpoint_lightning.pth", "lightning.pth");
  EXPECT_THAT(names(*lightning.source), testing::ElementsAre("x"));
  EXPECT_EQ(element<float>(*lightning.source->find("x"), 2), ramp(2));
  EXPECT_EQ(lightning.said, "");
}

TEST(Checkpoint, TensorsThatNobodyReadsAreErrorsOfWhoAsks) {
  const auto source = open_weights(golden("checkpoint_module.pth"));
  EXPECT_THAT(names(*source), testing::ElementsAre("buffer", "complex", "quantized", "sparse", "u16", "x"));
  const Scope scope(source);
  EXPECT_EQ(scope.tensor("x", {3}).as<float>()[1], ramp(1));
  EXPECT_EQ(scope.tensor("buffer", {2}).as<float>()[1], ramp(1));
  const std::pair<const char*, const char*> unread[] = {{"complex", "torch.ComplexFloatStorage"},
                                                        {"u16", "torch.uint16"},
                                                        {"sparse", "_rebuild_sparse_tensor"},
                                                        {"quantized", "_rebuild_qtensor"}};
  for (const auto& [name, says] : unread) {
    expect_error(ErrorCode::unsupported, says, [&] { scope.tensor(name, {2}); });
    expect_error(ErrorCode::unsupported, std::string("checkpoint_module.pth: tensor \"") + name + '"',
                 [&] { scope.tensor(name, {2}); });
  }
}

TEST(Checkpoint, AveragesWithTheNamesOfWrappers) {
  const Opened ema = open_said("checkpoint_ema.pth", "ema.pth");
  EXPECT_THAT(ema.said, AllOf(HasSubstr("\"ema.shadow\" is taken"), HasSubstr("\"model\"")));
  const auto plain = plain_source(ema.source);
  EXPECT_THAT(names(*plain), testing::ElementsAre("blocks.0.x.weight", "blocks.0.y.weight"));
  EXPECT_EQ(element<float>(*plain->find("blocks.0.x.weight"), 0), ramp(0) + 1);
}

TEST(Checkpoint, AnOptimizerIsNoModel) {
  expect_error(ErrorCode::unsupported, "checkpoint_optimizer.pth: no tensors of a model",
               [&] { open_weights(golden("checkpoint_optimizer.pth")); });
}

TEST(Checkpoint, NamesThatRunCode) {
  for (const char* name : {"os.system", "posix.system", "nt.system", "subprocess.Popen", "builtins.eval",
                           "builtins.exec", "__builtin__.eval", "builtins.__import__", "runpy._run_code",
                           "torch.load", "torch.hub.load", "sys.modules", "shutil.rmtree", "pty.spawn",
                           "operator.attrgetter", "types.CodeType", "my_module.system", "webbrowser.open"})
    EXPECT_TRUE(runs_code(name)) << name;
  for (const char* name :
       {"argparse.Namespace", "omegaconf.dictconfig.DictConfig", "collections.OrderedDict", "torch.Size",
        "numpy.core.multiarray.scalar", "pathlib.PosixPath", "easydict.EasyDict", "__main__.Config",
        "wan.configs.Config", "builtins.set", "torch.nn.parameter.Parameter", "oslo.thing", "os"})
    EXPECT_FALSE(runs_code(name)) << name;
}

}  // namespace
}  // namespace tachy::test
