#include "convert/convert.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/disk.h"
#include "base/env.h"
#include "base/error.h"
#include "base/foreign_file.h"
#include "base/output_lock.h"
#include "convert/convert_plan.h"
#include "convert/convert_run.h"
#include "convert/output_folder.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

// What a model's folder may contain, and the files in each of its subfolders. A folder with anything else is
// not replaced, because the other things would be lost.
const std::set<std::string> kFiles = {"model_index.json", "generation_config.json"};
const std::set<std::string> kFolders = {"transformer", "transformer_2", "text_encoder",  "tokenizer",
                                        "vae",         "scheduler",     "image_encoder", "image_processor"};
const std::set<std::string> kFilesOfAPart = {
    "config.json",      "generation_config.json", "scheduler_config.json", "preprocessor_config.json",
    "tokenizer.json",   "tokenizer_config.json",  "spiece.model",          "special_tokens_map.json",
    "added_tokens.json"};

bool is_weights_name(const std::string& name) {
  const auto begins = [&](const char* stem) { return name.starts_with(stem); };
  const auto ends = [&](const char* ending) { return name.ends_with(ending); };
  return (begins("diffusion_pytorch_model") || begins("model") || begins("pytorch_model")) &&
         (ends(".safetensors") || ends(".bin") || ends(".index.json"));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

std::vector<fs::path> listed(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> items = list_folder(folder, error);
  check(!error, ErrorCode::io, "{}: cannot list the folder: {}", folder.string(), error.message());
  return items;
}

void check_folder(const fs::path& out, bool overwrite) {
  std::error_code ignored;
  if (!fs::exists(out, ignored)) return;
  const std::vector<fs::path> items = listed(out);
  if (items.empty()) return;
  require(overwrite, "{}: it exists already; `overwrite` replaces it", out.string());
  const auto require_known = [&](const fs::path& item, bool known) {
    require(known,
            "{}: it holds {}, which is not part of a model and would be lost; remove the folder yourself, or "
            "name another",
            out.string(), item.lexically_relative(out).string());
  };
  for (const fs::path& item : items) {
    // Removing a link loses nothing that it leads to.
    const fs::file_status status = fs::symlink_status(item, ignored);
    const bool part = kFolders.contains(item.filename().string());
    require_known(item, fs::is_directory(status) ? part : part || kFiles.contains(item.filename().string()));
    if (!fs::is_directory(status)) continue;
    for (const fs::path& file : listed(item)) {
      const std::string name = file.filename().string();
      require_known(file, !fs::is_directory(fs::symlink_status(file, ignored)) &&
                              (kFilesOfAPart.contains(name) || is_weights_name(name)));
    }
  }
}

// Runs before anything is read, because hours of work must not end with a name that cannot be written.
void check_output(const fs::path& out, const ConvertForm& form, bool overwrite) {
  std::error_code ignored;
  require(!out.empty(), "the output's name is empty");
  const std::string ending = out.extension().string();
  const bool there = fs::exists(out, ignored), folder = fs::is_directory(out, ignored);
  check(fs::is_directory(folder_of(out), ignored), ErrorCode::io,
        "{}: cannot write: there is no folder '{}'; make it first", out.string(), folder_of(out).string());
  if (form.kind == ConvertForm::Kind::diffusers) {
    require(!there || folder, "{}: expected a folder for diffusers' layout, but this is a file",
            out.string());
    require(!fs::is_symlink(fs::symlink_status(out, ignored)), "{}: this is a link; name the folder itself",
            out.string());
    require(ending != ".safetensors" && ending != ".gguf",
            "{}: expected a folder for diffusers' layout, but this is the name of a file", out.string());
    return check_folder(out, overwrite);
  }
  const char* expected = form.type ? ".gguf" : ".safetensors";
  require(!folder, "{}: this is a folder; expected a file such as {}", out.string(),
          (out / ("model" + std::string(expected))).string());
  require(ending == expected, "{}: expected a name that ends in {}", out.string(), expected);
  require(!there || overwrite, "{}: it exists already; `overwrite` replaces it", out.string());
  check(!there || fs::is_regular_file(out, ignored), ErrorCode::io,
        "{}: cannot write: the name belongs to something that is not a plain file", out.string());
}

// Returns the real path of `path`, or of the folder that will contain it.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(path, error);
  check(!error, ErrorCode::io, "{}: {}", path.string(), error.message());
  return found;
}

void refuse_own_input(const ConvertPlan& plan, const fs::path& out) {
  const fs::path target = resolved(out), name = out.filename();
  // The output and its temporary place.
  const fs::path ours[] = {target, resolved(folder_of(out)) / ("." + name.string() + ".convert.part")};
  // Both the given name and the file that it leads to are compared, because folders of models often contain
  // links.
  const auto check_file = [&](const fs::path& file) {
    for (const fs::path& read : {resolved(file), resolved(folder_of(file)) / file.filename()})
      for (fs::path place = read; place.has_relative_path(); place = place.parent_path())
        require(std::ranges::find(ours, place) == std::end(ours),
                "{}: this is the input ({}); name another output", out.string(), file.string());
  };
  for (const auto& source : plan.sources)
    for (const auto& file : source->files()) check_file(file->path());
  for (const auto& [from, to] : plan.copies) check_file(from);
}

void check_room(const ConvertPlan& plan, const fs::path& out) {
  std::error_code unknown;
  const uint64_t free = fs::space(folder_of(out), unknown).available, needed = plan.bytes();
  if (unknown) return;
  check(needed <= free, ErrorCode::io, "{}: {} are needed on its disk, but only {} are free", out.string(),
        human_bytes(needed), human_bytes(free));
}

void write_text(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.write_at(0, text.data(), text.size());
  file.commit(text.size());
}

void write_folder(const ConvertPlan& plan, const fs::path& out, const ConvertOptions& options) {
  std::set<fs::path> folders;
  const auto holds = [&](const fs::path& file) {
    if (file.has_parent_path()) folders.insert(file.parent_path());
  };
  for (const ConvertFile& file : plan.files) holds(file.path);
  for (const auto& [path, text] : plan.texts) holds(path);
  for (const auto& [from, to] : plan.copies) holds(to);
  OutputFolder folder(out, folders);
  ConvertRun run(plan, options);
  for (const auto& [path, text] : plan.texts) write_text(folder.place(path), text);
  for (const auto& [from, to] : plan.copies) {
    run.check_cancelled();
    std::error_code error;
    const fs::path place = folder.place(to);
    fs::copy_file(from, place, error);
    check(!error, ErrorCode::io, "{}: cannot copy {}: {}", (out / to).string(), from.string(),
          error.message());
    fs::permissions(place, fs::perms::owner_write, fs::perm_options::add, error);
  }
  for (const ConvertFile& file : plan.files) {
    OutputFile part(folder.place(file.path));
    run.write(file, part);
  }
  run.check_cancelled();
  if (options.overwrite) check_folder(out, true);  // files may have been added in the meantime
  folder.commit(options.overwrite);
}

ConvertReport report_on(const ConvertPlan& plan, const fs::path& out) {
  ConvertReport report{.output = out.string(), .bytes = plan.bytes(), .notes = plan.notes};
  std::map<std::string, int64_t> dtypes;
  for (const ConvertFile& file : plan.files) {
    report.files.push_back(file.path.empty() ? out.string() : file.path.string());
    report.tensors += static_cast<int64_t>(file.tensors.size());
    for (const StoredTensor& tensor : file.tensors)
      ++dtypes[std::string(tensor.type ? tensor.type->name : dtype_name(tensor.dtype))];
  }
  for (const auto& [path, text] : plan.texts) report.files.push_back(path.string());
  for (const auto& [from, to] : plan.copies) report.files.push_back(to.string());
  std::vector<std::pair<int64_t, std::string>> ordered;
  for (const auto& [dtype, count] : dtypes) ordered.emplace_back(-count, dtype);
  std::sort(ordered.begin(), ordered.end());
  for (const auto& [count, dtype] : ordered)
    report.dtypes.push_back(fmt::format("{} ({} tensors)", dtype, -count));
  return report;
}

}  // namespace

ConvertReport convert_model(const fs::path& in, const fs::path& given, const PartPaths& parts,
                            const ConvertOptions& options) {
  const ConvertForm form = parse_form(options.to);
  const bool folder = form.kind == ConvertForm::Kind::diffusers;
  require(options.part.empty() || options.part == "transformer" || options.part == "transformer_2",
          "`part`: expected transformer or transformer_2, got '{}'", options.part);
  require(options.part.empty() || !folder, "`part`: diffusers' layout has all parts; leave it out");
  require(folder || parts == PartPaths{}, "`to`: {} holds the transformer alone; leave out the other parts",
          options.to);
  std::error_code ignored;
  check(fs::exists(in, ignored), ErrorCode::not_found, "{}: {}", in.string(), why_missing(in));
  fs::path out = given.filename().empty() ? given.parent_path() : given;  // "folder/"
  if (out.filename() == "." || out.filename() == "..") out = resolved(out);
  check_output(out, form, options.overwrite);
  const OutputLock lock(out);
  const ConvertPlan plan =
      folder ? plan_folder(in, parts, options.max_shard_bytes) : plan_file(in, form, options.part);
  refuse_own_input(plan, out);
  check_room(plan, out);
  if (folder) {
    write_folder(plan, out, options);
  } else {
    OutputFile file(out);
    ConvertRun(plan, options).write(plan.files.front(), file);
  }
  return report_on(plan, out);
}

}  // namespace tachy
