#include "weights/torch/pickle_globals.h"

#include <cstddef>
#include <string>

namespace tachy {
namespace {

constexpr StorageName kStorages[] = {
    {"torch.FloatStorage", DType::f32},
    {"torch.HalfStorage", DType::f16},
    {"torch.BFloat16Storage", DType::bf16},
    {"torch.DoubleStorage", DType::f64},
    {"torch.LongStorage", DType::i64},
    {"torch.IntStorage", DType::i32},
    {"torch.ShortStorage", DType::i16},
    {"torch.CharStorage", DType::i8},
    {"torch.ByteStorage", DType::u8},
    {"torch.BoolStorage", DType::boolean},
    {"torch.Float8_e4m3fnStorage", DType::f8_e4m3},
    {"torch.Float8_e5m2Storage", DType::f8_e5m2},
    {"torch.storage.UntypedStorage", DType::u8, true},
    {"torch.UntypedStorage", DType::u8, true},
};
constexpr StorageName kDTypeGlobals[] = {
    {"torch.float32", DType::f32},
    {"torch.float16", DType::f16},
    {"torch.bfloat16", DType::bf16},
    {"torch.float64", DType::f64},
    {"torch.int64", DType::i64},
    {"torch.int32", DType::i32},
    {"torch.int16", DType::i16},
    {"torch.int8", DType::i8},
    {"torch.uint8", DType::u8},
    {"torch.bool", DType::boolean},
    {"torch.float8_e4m3fn", DType::f8_e4m3},
    {"torch.float8_e5m2", DType::f8_e5m2},
};

template <size_t N>
const StorageName* look_up(const StorageName (&table)[N], std::string_view name) {
  for (const auto& item : table) {
    if (item.name == name) return &item;
  }
  return nullptr;
}

// Modules whose functions run programs or code, or use the network. Checkpoints contain no objects of them.
constexpr std::string_view kRunning =
    " os posix nt subprocess _posixsubprocess sys runpy importlib shutil socket pty ctypes _ctypes cffi code "
    "codeop pdb bdb timeit profile cProfile trace webbrowser pickle _pickle marshal cloudpickle dill "
    "operator _operator pip zipimport pkgutil pydoc doctest commands popen2 asyncio multiprocessing http "
    "urllib urllib2 requests httplib aiohttp ftplib smtplib ssl tempfile signal platform venv ensurepip "
    "IPython ";

constexpr std::string_view kRunningBuiltins =
    " eval exec execfile compile open __import__ setattr delattr globals locals vars breakpoint input apply "
    "map filter reload help ";
// Names that run code in any module.
constexpr std::string_view kRunningNames =
    " system popen exec eval Popen check_output __import__ CodeType FunctionType LambdaType ";

// Says whether `word` is in `words`, where each word has a space before and after it.
bool has_word(std::string_view words, std::string_view word) {
  return !word.empty() && words.find(' ' + std::string(word) + ' ') != words.npos;
}

}  // namespace

const StorageName* find_storage(std::string_view name) { return look_up(kStorages, name); }
const StorageName* find_dtype(std::string_view name) { return look_up(kDTypeGlobals, name); }

bool runs_code(std::string_view name) {
  const std::string_view module = name.substr(0, name.find('.')), leaf = name.substr(name.rfind('.') + 1);
  if (module != name && has_word(kRunning, module)) return true;
  if (module == "builtins" || module == "__builtin__" || module == "__builtins__")
    return has_word(kRunningBuiltins, leaf);
  for (const std::string_view part : {"torch.hub.", "torch.utils.cpp_extension.", "numpy.testing."})
    if (name.starts_with(part)) return true;
  return name == "torch.load" || has_word(kRunningNames, leaf);
}

}  // namespace tachy
