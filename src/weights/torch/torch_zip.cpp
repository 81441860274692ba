// Goes from the zip directory to data.pkl, to the dict with the tensors, and to one entry per tensor, which
// is checked against its storage.
#include "weights/torch/torch_zip.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "tensor/tensor.h"
#include "weights/quote.h"
#include "weights/tensor_range.h"
#include "weights/torch/pickle_reader.h"
#include "weights/torch/torch_dict.h"
#include "weights/torch/zip_reader.h"

namespace tachy {
namespace {

using Kind = PickleValue::Kind;

constexpr uint64_t kMaxPickle = 64ull << 20;

void refuse_other_formats(const MappedFile& file) {
  const auto starts_with = [&](std::string_view magic) {
    return file.size() >= magic.size() && std::memcmp(file.data(), magic.data(), magic.size()) == 0;
  };
  if (starts_with("PK")) return;
  const std::string& path = file.path();
  check(!starts_with("\x80"), ErrorCode::unsupported,
        "{}: a pickle in torch's old format (before 1.6), which is not read; convert it once in Python: f = "
        "'{}'; torch.save(torch.load(f, weights_only=True), f)",
        path, path);
  fail(ErrorCode::corrupt,
       "{}: expected tensors in a safetensors, GGUF or PyTorch file, got a file that begins with {}", path,
       in_quotes({reinterpret_cast<const char*>(file.data()),
                  static_cast<size_t>(std::min<uint64_t>(file.size(), 8))}));
}

bool is_contiguous(const PickleValue& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.dims.size(); i-- > 0;) {
    if (tensor.dims[i] == 0) return true;
    if (tensor.dims[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.dims[i];
  }
  return true;
}

struct Archive {
  std::shared_ptr<const MappedFile> file;
  ZipDirectory directory;
  std::string prefix;  // "archive/"

  const ZipEntry* find(std::string_view name) const {
    const auto it = directory.find(prefix + std::string(name));
    return it == directory.end() ? nullptr : &it->second;
  }
  std::span<const std::byte> bytes(const ZipEntry& entry) const {
    return file->bytes().subspan(entry.offset, entry.bytes);
  }
};

Archive open_archive(const std::filesystem::path& path_, FileAccess access) {
  Archive archive{std::make_shared<const MappedFile>(path_, access), {}, {}};
  const std::string& path = archive.file->path();
  check(archive.file->size() > 0, ErrorCode::corrupt, "{}: the file is empty", path);
  refuse_other_formats(*archive.file);
  archive.directory = read_zip_directory(archive.file->bytes(), path);
  constexpr std::string_view kPickle = "data.pkl";
  bool found = false;
  for (const auto& [name, entry] : archive.directory) {
    const auto slash = name.find('/');
    if (name == kPickle || (slash != name.npos && std::string_view(name).substr(slash + 1) == kPickle)) {
      archive.prefix = name.substr(0, name.size() - kPickle.size());
      found = true;
    }
  }
  check(found, ErrorCode::corrupt, "{}: a zip without data.pkl is not a torch checkpoint{}", path,
        archive.directory.empty() ? ""
                                  : fmt::format("; it holds {}{}: unpack it and name the weights in it",
                                                in_quotes(archive.directory.begin()->first, 60),
                                                archive.directory.size() > 1 ? " and others" : ""));
  if (const auto* order = archive.find("byteorder")) {
    const auto text = archive.bytes(*order);
    check(text.size() == 6 && std::memcmp(text.data(), "little", 6) == 0, ErrorCode::unsupported,
          "{}: expected little-endian data, got byteorder {}", path,
          in_quotes({reinterpret_cast<const char*>(text.data()), std::min<size_t>(text.size(), 16)}));
  }
  return archive;
}

// Makes an entry for a tensor of an unknown kind, which is an error once somebody reads it.
TensorSource::Entry unread_entry(const std::string& name, const PickleValue& value) {
  const std::string& what = value.kind == Kind::opaque ? value.text : value.unread;
  return {.name = name,
          .name_in_file = name,
          .dtype = DType::u8,
          .dims = value.dims.empty() ? std::vector<int64_t>{1} : value.dims,
          .unusable = fmt::format("it is a tensor of {}, which is not read", printable(what, 80))};
}

TensorSource::Entry make_entry(const Archive& archive, const std::string& name, const PickleValue& tensor) {
  const std::string& path = archive.file->path();
  if (tensor.kind == Kind::opaque || !tensor.unread.empty()) return unread_entry(name, tensor);
  const auto* storage = archive.find("data/" + tensor.text);
  check(storage != nullptr, ErrorCode::corrupt, "{}: tensor {}: storage {} is missing", path, in_quotes(name),
        in_quotes(tensor.text));
  const auto bytes = checked_bytes(tensor.dims, tensor.dtype);
  check(bytes.has_value(), ErrorCode::corrupt, "{}: tensor {}: shape {} overflows", path, in_quotes(name),
        shape_string(tensor.dims));
  const uint64_t element = static_cast<uint64_t>(dtype_size(tensor.dtype)),
                 capacity = storage->bytes / element;
  TensorSource::Entry entry{.name = name,
                            .name_in_file = name,
                            .dtype = tensor.dtype,
                            .dims = tensor.dims.empty() ? std::vector<int64_t>{1} : tensor.dims,
                            .data = nullptr,
                            .bytes = *bytes};
  if (!is_contiguous(tensor)) {
    entry.unusable =
        fmt::format("its strides {} are not those of a contiguous {} (save it with .contiguous())",
                    shape_string(tensor.strides), shape_string(tensor.dims));
    return entry;
  }
  const auto offset = static_cast<uint64_t>(tensor.integer);
  check(offset <= capacity && *bytes / element <= capacity - offset, ErrorCode::corrupt,
        "{}: tensor {}: {} {} at element {} leaves its storage of {} bytes", path, in_quotes(name),
        dtype_name(tensor.dtype), shape_string(tensor.dims), offset, storage->bytes);
  entry.data = archive.file->data() + storage->offset + offset * element;
  return entry;
}

}  // namespace

std::shared_ptr<TensorSource> open_torch_zip(const std::filesystem::path& path, FileAccess access) {
  const Archive archive = open_archive(path, access);
  const ZipEntry& entry = *archive.find("data.pkl");
  const std::string what = archive.file->path() + ": data.pkl";
  check(entry.bytes <= kMaxPickle, ErrorCode::corrupt, "{}: {} bytes, the limit is {}", what, entry.bytes,
        kMaxPickle);
  const Pickle pickle = read_pickle(archive.bytes(entry), what);
  const ModelDict chosen = model_dict(pickle, archive.file->path());
  if (!chosen.said.empty()) warn("{}: {}", archive.file->path(), chosen.said);

  std::vector<TensorSource::Entry> entries;
  const PickleValue& dict = *chosen.dict;
  for (size_t i = 0; i < dict.items.size(); i += 2) {
    const auto &key = pickle[dict.items[i]], &value = pickle[dict.items[i + 1]];
    if (key.kind == Kind::string && is_tensor(value)) entries.push_back(make_entry(archive, key.text, value));
  }
  return std::make_shared<TensorSource>(std::move(entries), std::vector{archive.file});
}

}  // namespace tachy
