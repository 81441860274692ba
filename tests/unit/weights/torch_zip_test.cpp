// Tests torch checkpoints: files of torch.save, and archives and pickles that lie or try to execute code.
#include "weights/torch/torch_zip.h"

#include "support.h"
#include "weights/scope.h"
#include "weights/torch/pickle_reader.h"
#include "weights/torch/zip_reader.h"

namespace tachy::test {
namespace {

std::span<const std::byte> as_bytes(const std::string& s) {
  return std::as_bytes(std::span(s.data(), s.size()));
}

void refuses_pickle(ErrorCode code, const std::string& pickle, const std::string& reason) {
  expect_error(code, reason, [&] { read_pickle(as_bytes(pickle), "f.pth: data.pkl"); });
}

std::string le(uint64_t value, int bytes) {
  return {reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes)};
}
std::string pickled_text(const std::string& s) { return std::string(1, 'X') + le(s.size(), 4) + s; }

// An entry of a stored zip, made by hand so that each field can lie.
struct ZipItem {
  std::string name, data;
  int method = 0;
  int64_t size_lie = -1, offset_lie = -1;
};
std::string zip_bytes(const std::vector<ZipItem>& items) {
  std::string out, directory;
  for (const auto& item : items) {
    const uint64_t local = item.offset_lie >= 0 ? static_cast<uint64_t>(item.offset_lie) : out.size();
    const uint64_t size = item.size_lie >= 0 ? static_cast<uint64_t>(item.size_lie) : item.data.size();
    const std::string common =
        le(item.method, 2) + le(0, 8) + le(size, 4) + le(size, 4) + le(item.name.size(), 2) + le(0, 2);
    out += "PK\3\4" + le(20, 2) + le(0, 2) + common + item.name + item.data;
    directory += "PK\1\2" + le(20, 2) + le(20, 2) + le(0, 2) + common + le(0, 2) + le(0, 2) + le(0, 2) +
                 le(0, 4) + le(local, 4) + item.name;
  }
  const uint64_t at = out.size();
  return out + directory + "PK\5\6" + le(0, 4) + le(items.size(), 2) + le(items.size(), 2) +
         le(directory.size(), 4) + le(at, 4) + le(0, 2);
}

// Returns the pickle of {"x": T} for a tensor T over FloatStorage "0" of `count` values, at `offset`, of
// `size` and `stride` (both rank 1).
std::string tensor_pickle(const std::string& offset, const std::string& size, const std::string& stride,
                          const std::string& storage = "FloatStorage") {
  return "\x80\2}" + pickled_text("x") + "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled_text("storage") +
         "ctorch\n" + storage + "\n" + pickled_text("0") + pickled_text("cpu") + "K\2tQ" + offset + size +
         "\x85" + stride + "\x85\x89}tRs.";
}
std::string int8_bytes(int64_t value) { return "\x8a\x08" + le(static_cast<uint64_t>(value), 8); }

void refuses_archive(ErrorCode code, const std::string& bytes, const std::string& reason) {
  const TempFolder folder;
  const auto path = write_bytes(folder / "bad.pth", bytes);
  expect_error(code, reason, [&] { open_weights(path); });
  expect_error(code, "bad.pth", [&] { open_weights(path); });
}

TEST(TorchZip, ReadsTorchSave) {
  for (const auto* name : {"dtypes.pth", "protocol4.pth"}) {
    const auto source = open_weights(golden(name));
    expect_all_dtypes(*source);
    EXPECT_EQ(source->entries().size(), 19u) << name;
    const auto* row = source->find("row");
    EXPECT_EQ(row->dims, std::vector<int64_t>{3});
    EXPECT_EQ(element<float>(*row, 1), ramp(7));
    EXPECT_EQ(element<float>(*source->find("parameter"), 2), ramp(2));
    // Both tensors are views of one storage.
    EXPECT_EQ(static_cast<const float*>(source->find("tied")->data) + 6, row->data);
  }
}

TEST(TorchZip, NonContiguousTensorIsAnErrorOnlyWhenUsed) {
  const auto source = open_weights(golden("dtypes.pth"));
  const Scope scope(source);
  EXPECT_FALSE(source->find("transposed")->unusable.empty());
  expect_error(ErrorCode::unsupported, "transposed", [&] { scope.tensor("transposed", {3, 4}); });
  expect_error(ErrorCode::unsupported, ".contiguous()", [&] { scope.tensor("transposed", {3, 4}); });
}

TEST(TorchZip, UnwrapsNestedDicts) {
  const auto wrapped = open_weights(golden("wrapped.pth"));
  ASSERT_EQ(wrapped->entries().size(), 2u);
  EXPECT_EQ(element<float>(*wrapped->find("weight"), 3), ramp(3));
  // The tensor is from generator_ema.
  EXPECT_EQ(open_weights(golden("generator.pth"))->find("x")->dims, std::vector<int64_t>{3});
}

TEST(TorchZip, PlainZipWithoutZip64Opens) {
  const auto source = open_weights(golden("plain_zip.pth"));
  EXPECT_EQ(element<float>(*source->find("x"), 1), ramp(1));
}

TEST(TorchZip, RefusesCompressedLegacyAndCode) {
  expect_error(ErrorCode::unsupported, "compressed (method 8)",
               [&] { open_weights(golden("deflated.pth")); });
  expect_error(ErrorCode::unsupported, "torch.save(torch.load(f, weights_only=True), f)",
               [&] { open_weights(golden("legacy.pth")); });
  // os.system is pickled under the name of its implementation's module.
  expect_error(ErrorCode::unsupported, "posix.system", [&] { open_weights(golden("os_system.pth")); });
  EXPECT_FALSE(fs::exists("executed-by-pickle"));
}

TEST(TorchZip, EveryTruncationIsRefused) {
  const TempFolder folder;
  for (const auto* name : {"tiny.pth", "plain_zip.pth"}) {
    const std::string good = read_bytes(golden(name));
    for (size_t n = 0; n < good.size(); ++n) {
      ASSERT_FALSE(opens_or_refuses(folder / "cut.pth", good.substr(0, n))) << name << " cut to " << n;
    }
  }
}

TEST(TorchZip, EveryFlippedByteOpensOrIsRefused) {
  const TempFolder folder;
  for (const auto* name : {"tiny.pth", "plain_zip.pth", "wrapped.pth"}) {
    const std::string good = read_bytes(golden(name));
    for (size_t i = 0; i < good.size(); ++i) {
      for (const unsigned char mask : {0x01, 0x80, 0xff}) {
        std::string bad = good;
        bad[i] = static_cast<char>(static_cast<unsigned char>(bad[i]) ^ mask);
        opens_or_refuses(folder / "flip.pth", bad);
      }
    }
  }
}

TEST(TorchZip, ZipThatLies) {
  const std::string pickle = tensor_pickle("K\0", "K\2", "K\1"), data(8, 'x');
  const auto archive = [&](ZipItem first, ZipItem second) { return zip_bytes({first, second}); };
  const TempFolder folder;
  const std::string zero_offset = tensor_pickle(std::string("K\0", 2), "K\2", "K\1");
  EXPECT_TRUE(opens_or_refuses(folder / "ok.pth", archive({"a/data.pkl", zero_offset}, {"a/data/0", data})));

  refuses_archive(ErrorCode::corrupt, archive({"a/data.pkl", zero_offset, 0, 1 << 30}, {"a/data/0", data}),
                  "leaves the file");
  refuses_archive(ErrorCode::corrupt,
                  archive({"a/data.pkl", zero_offset, 0, -1, 1 << 30}, {"a/data/0", data}), "local header");
  refuses_archive(ErrorCode::corrupt, archive({"a/data.pkl", zero_offset, 0, -1, 7}, {"a/data/0", data}),
                  "local header");
  refuses_archive(ErrorCode::corrupt, archive({"a/data.pkl", zero_offset}, {"a/data/0", data, 0, 60}),
                  "run into the directory");
  refuses_archive(ErrorCode::corrupt, archive({"a/data.pkl", zero_offset}, {"a/data/0", data, 0, -1, 0}),
                  "another name");
  refuses_archive(ErrorCode::corrupt, archive({"a/data.pkl", zero_offset}, {"a/data.pkl", data}), "twice");
  refuses_archive(ErrorCode::unsupported, archive({"a/data.pkl", zero_offset, 8}, {"a/data/0", data}),
                  "compressed");
  refuses_archive(ErrorCode::corrupt, archive({"a/other", "x"}, {"a/data/0", data}), "data.pkl");
  refuses_archive(ErrorCode::corrupt, archive({"a/data.pkl", zero_offset}, {"a/data/1", data}),
                  "storage \"0\" is missing");
  refuses_archive(ErrorCode::unsupported,
                  zip_bytes({{"a/data.pkl", zero_offset}, {"a/data/0", data}, {"a/byteorder", "big"}}),
                  "byteorder");
  std::string many = archive({"a/data.pkl", zero_offset}, {"a/data/0", data});
  many[many.size() - 12] = many[many.size() - 11] = static_cast<char>(0xff);  // changes the entry count
  refuses_archive(ErrorCode::corrupt, many, "do not fit");
}

TEST(TorchZip, TensorThatLeavesItsStorage) {
  const auto refuses = [](const std::string& pickle, ErrorCode code, const std::string& reason) {
    refuses_archive(code, zip_bytes({{"a/data.pkl", pickle}, {"a/data/0", std::string(8, 'x')}}), reason);
  };
  const std::string zero("K\0", 2);
  refuses(tensor_pickle("K\1", "K\2", "K\1"), ErrorCode::corrupt, "leaves its storage");
  refuses(tensor_pickle(zero, "K\3", "K\1"), ErrorCode::corrupt, "leaves its storage");
  refuses(tensor_pickle(int8_bytes(INT64_MAX), "K\2", "K\1"), ErrorCode::corrupt, "leaves its storage");
  refuses(tensor_pickle(zero, int8_bytes(INT64_MAX), "K\1"), ErrorCode::corrupt, "overflows");
  refuses(tensor_pickle(zero, int8_bytes(1ll << 60), "K\1"), ErrorCode::corrupt, "leaves its storage");
  refuses(tensor_pickle(int8_bytes(-1), "K\2", "K\1"), ErrorCode::corrupt, "offset of at least 0");
  refuses(tensor_pickle(zero, int8_bytes(-2), "K\1"), ErrorCode::corrupt, "at least 0");
  refuses(tensor_pickle(zero, "K\2", "K\1", "DoubleStorage"), ErrorCode::corrupt, "leaves its storage");
  refuses(tensor_pickle(zero, "K\2", "K\1", "Complex"), ErrorCode::corrupt, "torch.Complex");
}

// Objects of unknown classes become values without content: nothing is imported, called or set.
TEST(Pickle, ObjectsAreOpaque) {
  const auto root = [](const std::string& pickle) {
    const Pickle read = read_pickle(as_bytes(pickle), "f");
    return read[read.root];
  };
  const std::string object = "\x80\2cmine\nConfig\n)\x81";
  EXPECT_EQ(root(object + ".").kind, PickleValue::Kind::opaque);
  EXPECT_EQ(root(object + "}" + pickled_text("x") + "K\1sb.").text, "mine.Config");
  EXPECT_EQ(root("\x80\2cmine\nmake\n)R]K\1ab.").kind, PickleValue::Kind::opaque);
  EXPECT_EQ(root("\x80\2\x8a\x09" + std::string(9, '\1') + ".").kind, PickleValue::Kind::opaque);
  EXPECT_EQ(root("\x80\4\x8f(K\1K\2\x90.").kind, PickleValue::Kind::opaque);
  EXPECT_EQ(root("\x80\4(K\1\x91.").kind, PickleValue::Kind::opaque);
  // An object of another class that is filled like a dict is treated as one.
  const PickleValue filled = root(object + pickled_text("x") + "K\1s.");
  EXPECT_EQ(filled.kind, PickleValue::Kind::dict);
  EXPECT_EQ(filled.items.size(), 2u);
}

TEST(Pickle, GlobalsThatRunCodeAreNamed) {
  refuses_pickle(ErrorCode::unsupported, "\x80\2cos\nsystem\n" + pickled_text("true") + "\x85R.",
                 "\"os.system\"");
  refuses_pickle(ErrorCode::unsupported, "\x80\2cbuiltins\neval\n.", "\"builtins.eval\"");
  refuses_pickle(ErrorCode::unsupported, "\x80\2ctorch\nload\n.", "\"torch.load\"");
  refuses_pickle(ErrorCode::unsupported, "\x80\4" + pickled_text("os") + pickled_text("system") + "\x93.",
                 "\"os.system\"");
  refuses_pickle(ErrorCode::unsupported, "\x80\2(i__main__\nX\n.", "opcode 0x69");  // the opcode INST
  refuses_pickle(ErrorCode::unsupported, "\x80\2\x82\1.", "opcode 0x82");           // the opcode EXT1
}

TEST(Pickle, MalformedOnesAreRefusedWithTheirOffset) {
  const auto bad = [](const std::string& p, const std::string& reason) {
    refuses_pickle(ErrorCode::corrupt, p, reason);
    refuses_pickle(ErrorCode::corrupt, p, "f.pth: data.pkl: byte");
  };
  bad("", "more bytes");
  bad("\x80\2", "more bytes");
  bad("\x80\x09.", "protocol");
  bad("\x80\2.", "a value on the stack");
  bad("\x80\2R.", "a value on the stack");
  bad("\x80\2}(.", "a value on the stack");  // a mark hides what is below it
  bad("\x80\2t.", "a mark");
  bad("\x80\2h\1.", "memo");
  bad("\x80\2Nr" + le(0xffffffff, 4) + ".", "memo");
  bad("\x80\2X" + le(0xffffffff, 4) + "abc", "more bytes");
  bad("\x80\2\x8d" + le(~0ull, 8) + "abc", "more bytes");
  bad("\x80\2cos\nsystem", "a line end");
  bad("\x80\2\x8b" + le(0xffffffff, 4) + "\1.", "more bytes");
  bad("\x80\2N)R.", "a class or a function to call");
  bad("\x80\2}}\x81.", "a tuple");
  bad("\x80\2})\x81.", "a class of an object");
  bad("\x80\2B" + le(0xffffffff, 4) + "abc", "more bytes");
  bad("\x80\2ccollections\nOrderedDict\nNR.", "a tuple");
  bad("\x80\2ctorch._utils\n_rebuild_tensor_v2\n)R.", "arguments of a tensor");
  bad("\x80\2)Q.", "persistent id");
  bad("\x80\2](N" + pickled_text("x") + "u.", "a dict");
  bad("\x80\2}(Nu.", "pairs");
  bad("\x80\2NNb.", "an object to set");
  bad("\x80\2" + std::string(3'000'000, '('), "fewer marks");
  bad("\x80\2" + std::string(3'000'000, 'N'), "a smaller stack");
}

TEST(Pickle, CyclesAndSharedBombsCostNothing) {
  // This is the pickle of d = {}; d["model"] = d.
  const std::string cycle =
      "\x80\2}q" + std::string(1, '\0') + pickled_text("model") + "h" + std::string(1, '\0') + "s.";
  refuses_archive(ErrorCode::unsupported, zip_bytes({{"a/data.pkl", cycle}}), "no tensors");
  // There are 200 tuples, each of which holds the previous one twice: 2^200 leaves if they were copied.
  std::string bomb = "\x80\2N";
  for (int i = 0; i < 200; ++i) bomb += "q\1h\1\x86";
  EXPECT_EQ(read_pickle(as_bytes(bomb + "."), "bomb").values.size(), 201u);
}

TEST(Pickle, RandomBytesNeverCrash) {
  uint32_t state = 1;
  const auto next = [&] { return state = state * 1664525u + 1013904223u, state >> 24; };
  const std::string opcodes =
      "012BCTU\x81\x8b\x8e\x8f\x90\x91\x92\x96(.N\x88\x89JKMXqhr)t\x85\x86\x87}]aesucQRb\x8a\x8c\x93\x94\x95";
  for (int round = 0; round < 20000; ++round) {
    std::string p = "\x80\2";
    for (int i = 0; i < 40; ++i)
      p += next() % 3 ? opcodes[next() % opcodes.size()] : static_cast<char>(next() % 4);
    try {
      read_pickle(as_bytes(p), "random");
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace tachy::test
