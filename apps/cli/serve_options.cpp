#include "serve_options.h"

#include <algorithm>
#include <system_error>

#include "api/fields.h"
#include "field_options.h"
#include "http/access.h"

namespace tachy::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAccess = "Who may use it";
constexpr const char* kJobs = "Jobs";
constexpr const char* kHosts = "Several hosts";

bool is_model_name(const std::string& text) {
  return !text.empty() && text.size() <= 64 && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                  c == '-' || c == '_';
         });
}

void register_access(CommandOptions& app, ServeOptions& o) {
  app.add_option("--keys", o.keys,
                 "file with the keys of those who may use the server, a line each: NAME SHA256-OF-KEY "
                 "[priority] [admin]")
      ->group(kAccess);
  app.add_option("--new-key", o.new_key,
                 "make a key for this name, append its hash to the file of --keys, print the key and end")
      ->group(kAccess);
  app.add_option("--public-name", o.public_names,
                 "name by which clients reach the server through a proxy (repeatable)")
      ->allow_extra_args(false)
      ->group(kAccess);
  app.add_option("--allow-urls", o.allow_urls,
                 "hosts from which inputs may be fetched by their address, such as images.example.org "
                 "(default: none)")
      ->group(kAccess);
  app.add_option("--max-upload", o.max_upload, "most bytes of a request (default 512MiB)")->group(kAccess);
}

void register_jobs(CommandOptions& app, ServeOptions& o) {
  app.add_option("--queue", o.queue, "most jobs that wait (default 1000)")
      ->check(between(1, 100'000))
      ->group(kJobs);
  app.add_option("--key-queue", o.key_queue, "most jobs of one key that wait (default 0: as --queue)")
      ->check(between(0, 100'000))
      ->group(kJobs);
  app.add_option("--max-pixel-frames", o.max_pixel_frames,
                 "most pixels times frames of one video (default 0: what memory allows)")
      ->check(between(0, 1e15))
      ->group(kJobs);
  app.add_option("--at-once", o.at_once,
                 "most jobs that run beside one another (default 0: one on a CPU, two on a GPU if they fit)")
      ->check(between(0, 64))
      ->group(kJobs);
  app.add_option("--keep-days", o.keep_days,
                 "remove a job this many days after its end, with its files (default 0: never)")
      ->check(between(0, 36'500))
      ->group(kJobs);
  app.add_option(
         "--keep-bytes", o.keep_bytes,
         "remove the oldest ended jobs while all together are larger, such as 200GiB (default: never)")
      ->group(kJobs);
  app.add_option(
         "--database", o.database,
         "a PostgreSQL that has the jobs of several hosts, as postgresql://USER@HOST:PORT/NAME; PGPASSFILE "
         "names the file with its password (default: a file in the folder of --files)")
      ->group(kJobs);
  app.add_option("--webhook", o.webhook,
                 "address that is told of each job's end: video.completed or video.failed")
      ->group(kJobs);
  app.add_option("--webhook-secret-file", o.webhook_secret_file,
                 "file with the secret (whsec_…) by which these messages are signed")
      ->group(kJobs);
}

void register_hosts(CommandOptions& app, ServeOptions& o) {
  app.add_option("--role", o.role,
                 "with --database: api (takes requests, runs no jobs), worker or both (default both)")
      ->group(kHosts);
  app.add_option("--name", o.name,
                 "with --database: this host's name, which no other one has (default: the machine's)")
      ->group(kHosts);
  app.add_option("--advertise", o.advertise,
                 "with --database: HOST:PORT at which the other hosts reach this one (default: from --host "
                 "and --port)")
      ->group(kHosts);
  app.add_option(
         "--cluster-secret-file", o.cluster_secret_file,
         "with --database: file with a secret of 32 bytes or more that all hosts share; by it they ask one "
         "another for files")
      ->group(kHosts);
}

void register_store(CommandOptions& app, ServeOptions& o) {
  app.add_option("--store", o.store,
                 "with --database: s3://BUCKET/PREFIX, where finished videos are kept as well; keys and "
                 "address come from "
                 "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL")
      ->group(kHosts);
}

void check_folder(const char* option, const fs::path& path) {
  std::error_code error;
  check(path.empty() || fs::is_directory(path, error), ErrorCode::not_found, "{}: {}: no such folder", option,
        path.string());
}

void check_file(const char* option, const fs::path& path) {
  std::error_code error;
  check(path.empty() || fs::is_regular_file(path, error), ErrorCode::not_found, "{}: {}: no such file",
        option, path.string());
}

}  // namespace

void register_serve_options(CommandOptions& app, ServeOptions& o) {
  app.add_option("--host", o.host,
                 "address or name of this machine to listen on (default 127.0.0.1); beyond this machine "
                 "--keys is needed");
  app.add_option("--port", o.port, "port to listen on (default 8190; 0: any that is free)")
      ->check(between(0, 65'535));
  app.add_option(
         "-m,--model", o.models,
         "a model as NAME=PATH, under which requests ask for it; repeatable, the first is the default "
         "(default: those that ship)")
      ->allow_extra_args(false);
  app.add_option("--lora-dir,--lora_dir", o.lora_dir,
                 "folder of LoRA files, which requests name without their endings");
  app.add_option(
      "--files", o.files,
      "folder of the jobs and their videos (default: tachyscope in XDG_DATA_HOME or ~/.local/share)");
  app.add_option("--device", o.engine.device, kDeviceHelp);
  app.add_option(
      "--gpus", o.engine.gpus,
      "use several GPUs of this machine: all, how many, or which (0,2); each makes videos of its own, "
      "--at-once and --max-vram hold for each of them, and worlds use the first");
  app.add_option(
      "--max-vram,--max_vram", o.max_vram,
      "most GPU memory that all jobs of a GPU together may take, such as 8GiB; parts of the transformer "
      "and the text encoder that do not fit stay in host memory and are copied over when they are "
      "needed; the frames are the same (default: what is free)");
  app.add_option("-t,--threads", o.engine.threads, spelled(find_field(engine_fields(), "threads")->help));
  app.add_option("--weights", o.engine.weights, spelled(find_field(engine_fields(), "weights")->help));
  app.add_flag("--json", o.json, "print a JSON line once the server listens");
  app.add_flag("-q,--quiet", o.quiet, "print nothing but errors");
  register_access(app, o);
  register_jobs(app, o);
  register_hosts(app, o);
  register_store(app, o);
  app.short_help({"--host", "--port", "--model", "--lora-dir", "--files", "--device", "--max-vram",
                  "--threads", "--json", "--keys", "--new-key", "--public-name", "--allow-urls", "--queue",
                  "--at-once", "--keep-days", "--keep-bytes", "--database", "--webhook"});
}

uint64_t bytes_in(const std::string& option, const std::string& text, uint64_t otherwise) {
  return text.empty() ? otherwise : naming(option, [&] { return parse_bytes(text); });
}

std::vector<NamedModel> served_models(const ServeOptions& o) {
  std::vector<NamedModel> out;
  for (const std::string& text : o.models) {
    const size_t sign = text.find('=');
    require(sign != text.npos && sign + 1 < text.size() && is_model_name(text.substr(0, sign)),
            "--model: expected NAME=PATH, where the name has letters, digits, '.', '-' and '_', got '{}'",
            text);
    NamedModel model{.name = text.substr(0, sign), .path = text.substr(sign + 1)};
    for (const NamedModel& other : out)
      require(other.name != model.name, "--model: the name '{}' is given twice", model.name);
    std::error_code error;
    check(fs::exists(model.path, error), ErrorCode::not_found, "--model: {}: no such file or folder",
          model.path.string());
    out.push_back(std::move(model));
  }
  if (!o.models.empty()) return out;
  out.push_back({"sprites", shipped_model("sprites")});
  for (const char* name : {"talker", "world"}) {
    try {
      out.push_back({name, shipped_model(name)});
    } catch (const Error&) {
      // A package may hold fewer models.
    }
  }
  return out;
}

void check_serve_options(const ServeOptions& o) {
  require(o.host.find_first_of(" \t/") == o.host.npos && !o.host.empty(),
          "--host: expected an address or a name of this machine, got '{}'", o.host);
  require(
      http::is_loopback(o.host) || !o.keys.empty(),
      "--host: {} can be reached from other machines, so the server needs --keys; --keys FILE --new-key NAME "
      "makes one",
      o.host);
  require(o.new_key.empty() || !o.keys.empty(), "--new-key: {}: say in which file, by --keys", o.new_key);
  if (o.new_key.empty()) check_file("--keys", o.keys);
  check_folder("--lora-dir", o.lora_dir);
  std::error_code error;
  check(o.files.empty() || !fs::exists(o.files, error) || fs::is_directory(o.files, error), ErrorCode::io,
        "--files: {} is not a folder", o.files.string());
  check_file("--webhook-secret-file", o.webhook_secret_file);
  check_file("--cluster-secret-file", o.cluster_secret_file);
  require(o.role == "api" || o.role == "worker" || o.role == "both",
          "--role: expected api, worker or both, got '{}'", o.role);
  if (o.database.empty())
    for (const auto& [option, given] : std::initializer_list<std::pair<const char*, std::string>>{
             {"--role", o.role == "both" ? "" : o.role},
             {"--name", o.name},
             {"--advertise", o.advertise},
             {"--store", o.store},
             {"--cluster-secret-file", o.cluster_secret_file.string()}})
      require(given.empty(), "{}: '{}' is for hosts that share a queue; give their database by --database",
              option, given);
  // No more than its beginning is printed: there may be a password behind it.
  require(
      o.database.empty() || o.database.starts_with("postgresql://") || o.database.starts_with("postgres://"),
      "--database: expected an address such as postgresql://USER@HOST:5432/NAME, got one that begins with "
      "'{}'",
      o.database.substr(0, std::min(o.database.find(':'), size_t{16})));
  require(o.webhook.empty() || o.webhook.starts_with("http://") || o.webhook.starts_with("https://"),
          "--webhook: expected an address that begins with http:// or https://, got '{}'", o.webhook);
  require(o.webhook.empty() == o.webhook_secret_file.empty(),
          "{}: --webhook and --webhook-secret-file belong together; give both",
          o.webhook.empty() ? "--webhook-secret-file: " + o.webhook_secret_file.string()
                            : "--webhook: " + o.webhook);
  for (const std::string& name : o.public_names)
    require(!name.empty() && name.find_first_of(" /") == name.npos && name.find("://") == name.npos,
            "--public-name: expected a name such as video.example.org, got '{}'", name);
  for (const std::string& host : o.allow_urls)
    require(!host.empty() && host.find_first_of(" /*@") == host.npos,
            "--allow-urls: expected hosts such as images.example.org, got '{}'", host);
  bytes_in("--keep-bytes", o.keep_bytes, 0);
  bytes_in("--max-vram", o.max_vram, 0);
  require(bytes_in("--max-upload", o.max_upload, 1 << 20) >= 1 << 16,
          "--max-upload: expected at least 64KiB, got {}", o.max_upload);
  check_fields(o.engine);
  if (!o.engine.gpus.empty())
    devices_of_gpus(o.engine.gpus, o.engine.device);
  else if (!is_automatic(o.engine.device))
    choose_device(o.engine.device);
  served_models(o);
}

}  // namespace tachy::cli
