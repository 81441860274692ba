// Tests names of files made from prompts: every script keeps its letters, and there is nothing in them that
// would confuse a shell, a path or a reader.
#include "text/file_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/utf8.h"

namespace tachy::text {
namespace {

std::string name(std::string_view text) { return file_name_of(text, 120); }

TEST(FileNames, LettersOfEveryScriptAreKept) {
  EXPECT_EQ(name("A red ball, rolling!"), "a-red-ball-rolling");
  EXPECT_EQ(name("红色的猫, 在跑"), "红色的猫-在跑");
  EXPECT_EQ(name("Красный МЯЧ"), "красный-мяч");
  EXPECT_EQ(name("قطة حمراء"), "قطة-حمراء");
  EXPECT_EQ(name("हिन्दी में लाल गेंद"), "हिन्दी-में-लाल-गेंद") << "vowel signs belong to their letters";
  EXPECT_EQ(name("ไทยน้ำ"), "ไทยน้ำ");
  EXPECT_EQ(name("붉은 고양이"), "붉은-고양이");
  EXPECT_EQ(name("𝒳 ٣ Ⅳ ½"), "𝒳-٣-ⅳ-½");
  EXPECT_EQ(name("🐱🚀 moon 👍🏽 🇩🇪"), "🐱🚀-moon-👍🏽-🇩🇪");
}

TEST(FileNames, ComposedWhateverTheyCameAs) {
  EXPECT_EQ(name("e\u0301lan"), "élan");
  EXPECT_EQ(name("E\u0301LAN"), name("élan"));
  EXPECT_EQ(name("\u1112\u1161\u11ab"), "한");
  EXPECT_EQ(name("e\u200b\u0301"), "é") << "what stood between them is left out";
}

TEST(FileNames, NothingThatIsNoLetter) {
  EXPECT_EQ(name("../../etc/passwd"), "etc-passwd");
  EXPECT_EQ(name("-rf .x\\y:z*?\"<>|"), "rf-x-y-z");
  EXPECT_EQ(name("a\u202eb\u2066c\u200fd"), "abcd") << "directions of text";
  EXPECT_EQ(name("a\x01\t\n\x7f\u0085\u2028"
                 "b"),
            "a-b")
      << "control characters";
  EXPECT_EQ(name("ａ／ｂ∕ｃ⁄ｄ"), "ａ-ｂ-ｃ-ｄ") << "what looks like a slash";
  EXPECT_EQ(name("\u3164\uffa0\u115f\u034f\ufe0f"), "") << "letters without a shape";
  EXPECT_EQ(name("\u0301\u0301x"), "x") << "an accent of nothing";
  EXPECT_EQ(name("\ue000\U000f0000\U0003ffff"), "");
  EXPECT_EQ(name(" . - "), "");
  EXPECT_EQ(name(""), "");
  EXPECT_EQ(name("\xff\xfe"), "");
  EXPECT_EQ(name(std::string_view("a\0b", 3)), "a-b");
}

TEST(FileNames, CutBetweenCharacters) {
  const auto repeated = [](std::string_view text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  EXPECT_EQ(name(repeated("a", 300)), repeated("a", 120));
  EXPECT_EQ(name(repeated("猫", 100)), repeated("猫", 40));
  EXPECT_EQ(name("x" + repeated("猫", 100)), "x" + repeated("猫", 39))
      << "118 bytes: another one has no room";
  EXPECT_EQ(name("x" + repeated("कि", 60)), "x" + repeated("कि", 19)) << "not between a letter and its sign";
  EXPECT_EQ(name(repeated("a", 117) + "👍🏽"), repeated("a", 117));
  EXPECT_EQ(name(repeated("a", 119) + " b"), repeated("a", 119)) << "no dash at the end";
  const std::string heavy = name("x" + repeated("\u0302", 500));  // one character with 500 accents
  EXPECT_EQ(heavy.size(), 119u);
  EXPECT_EQ(find_invalid_utf8(heavy), kValid);
}

}  // namespace
}  // namespace tachy::text
