// Files are found in ComfyUI's folders, and no name leads out of them.
#include <filesystem>
#include <fstream>

#include "graph_case.h"
#include "workflows/model_files.h"

namespace tachy::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using workflows::FileKind;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tachyscope-files-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    for (const char* file : {"models/unet/a", "models/diffusion_models/wan/b", "models/clip/t", "models/flat",
                             "input/p.png", "secret"}) {
      fs::create_directories((root_ / file).parent_path());
      std::ofstream(root_ / file) << "x";
    }
    find_ = workflows::files_in(root_ / "models", root_ / "input");
  }
  void TearDown() override { fs::remove_all(root_); }

  // Returns the path within the folder, or the message.
  std::string find(const std::string& name, FileKind kind = FileKind::diffusion_model,
                   ErrorCode code = ErrorCode::unsupported) {
    try {
      return fs::relative(find_({"37", "UNETLoader", {}, {}}, "unet_name", name, kind), root_).string();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << name;
      return e.message();
    }
  }

  fs::path root_;
  workflows::FindFile find_;
};

TEST_F(Files, LieInTheFoldersOfTheirKind) {
  EXPECT_EQ(find("a"), "models/unet/a");
  EXPECT_EQ(find("wan/b"), "models/diffusion_models/wan/b");
  EXPECT_EQ(find("wan\\b"), "models/diffusion_models/wan/b") << "as Windows writes it";
  EXPECT_EQ(find("t", FileKind::text_encoder), "models/clip/t");
  EXPECT_EQ(find("flat", FileKind::vae), "models/flat");
  EXPECT_EQ(find("p.png", FileKind::picture), "input/p.png");
  EXPECT_EQ(find("p.png [input]", FileKind::picture), "input/p.png");
}

TEST_F(Files, MissingOnesSayWhereTheyWereLookedFor) {
  EXPECT_THAT(find("c", FileKind::diffusion_model, ErrorCode::not_found),
              testing::AllOf(HasSubstr("node 37 UNETLoader, unet_name: there is no file c in "),
                             HasSubstr("models/unet or "), HasSubstr("diffusion_models")));
  EXPECT_THAT(find("wan", FileKind::diffusion_model, ErrorCode::not_found), HasSubstr("there is no file wan"))
      << "a folder";
}

TEST_F(Files, NoNameLeadsOut) {
  for (const std::string& name :
       {std::string("../secret"), std::string("wan/../../../secret"), std::string("..\\secret"),
        (root_ / "secret").string(), std::string("C:\\secret"), std::string(), std::string("wan/"),
        std::string("a\0b", 3), std::string("..")})
    EXPECT_THAT(find(name),
                HasSubstr("node 37 UNETLoader, unet_name: expected a file's name within its folder"))
        << name;
  EXPECT_THAT(find("p.png [output]", FileKind::picture), HasSubstr("input folder"));
}

}  // namespace
}  // namespace tachy::test
