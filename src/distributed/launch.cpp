#include "distributed/launch.h"

#include <charconv>

#include "base/checksum.h"
#include "base/env.h"
#include "base/error.h"

namespace tachy::distributed {
namespace {

constexpr int kMostRanks = 256;
constexpr uint16_t kUsualPort = 29500;  // that of torchrun

// The variables of one launcher.
struct Rules {
  const char* launcher;
  const char *rank, *ranks, *local_rank, *local_ranks;  // "": it tells no such thing
};
constexpr Rules kRules[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
    {"PMI", "PMIX_RANK", "WORLD_SIZE", "", ""},
    {"Kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "", ""},
};

class Reader {
 public:
  explicit Reader(const LaunchVariables& all) : all_(all) {}

  std::string text(const char* name) const {
    const auto it = all_.find(name);
    return it == all_.end() ? "" : it->second;
  }
  bool has(const char* name) const { return !text(name).empty(); }
  int64_t number(const char* name, int64_t least, int64_t most) const {
    const std::string value = text(name);
    int64_t out = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    require(error == std::errc() && end == value.data() + value.size() && out >= least && out <= most,
            "`distributed`: {}: expected {} to {}, got '{}'", name, least, most, value);
    return out;
  }

 private:
  const LaunchVariables& all_;
};

// Ranks of two jobs on the same host must not meet, so the port follows from what names the job.
uint16_t port_of_job(const std::string& job) {
  if (job.empty()) return kUsualPort;
  return static_cast<uint16_t>(20000 + checksum_of(job.data(), job.size()) % 10000);
}

std::string host_of(const Reader& read, const Launch& launch) {
  if (read.has("MASTER_ADDR")) return read.text("MASTER_ADDR");
  if (launch.launcher == "Slurm") {
    const char* const list = read.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_NODELIST";
    if (read.has(list)) return first_host(read.text(list));
  }
  // A launcher that counts the ranks of this host tells whether there are others.
  if (launch.launcher != "torchrun" && launch.local_ranks == launch.ranks) return "127.0.0.1";
  fail(ErrorCode::invalid_argument,
       "`distributed`: there are {} ranks ({}), but MASTER_ADDR is not set: it names the host of rank 0",
       launch.ranks, launch.launcher);
}

uint16_t port_of(const Reader& read, const Launch& launch) {
  // torchrun's agent may hold this port itself, for a store of its own (torch/distributed/rendezvous.py).
  if (launch.launcher == "torchrun" && read.text("TORCHELASTIC_USE_AGENT_STORE") == "True")
    return port_of_job(read.text("MASTER_PORT"));
  if (read.has("MASTER_PORT")) return static_cast<uint16_t>(read.number("MASTER_PORT", 1, 65535));
  if (launch.launcher == "Slurm") return port_of_job(read.text("SLURM_JOB_ID"));
  if (launch.launcher == "Open MPI" || launch.launcher == "PMI")
    return port_of_job(read.text("PMIX_NAMESPACE"));
  return kUsualPort;
}

const Rules* rules_of(const Reader& read) {
  for (const Rules& rules : kRules)
    if (read.has(rules.rank)) return &rules;
  return nullptr;
}

}  // namespace

LaunchVariables launch_variables() {
  LaunchVariables out;
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) out[name] = std::move(value);
  };
  add("RANK", env_string("RANK", ""));
  add("WORLD_SIZE", env_string("WORLD_SIZE", ""));
  add("LOCAL_RANK", env_string("LOCAL_RANK", ""));
  add("LOCAL_WORLD_SIZE", env_string("LOCAL_WORLD_SIZE", ""));
  add("MASTER_ADDR", env_string("MASTER_ADDR", ""));
  add("MASTER_PORT", env_string("MASTER_PORT", ""));
  add("TORCHELASTIC_USE_AGENT_STORE", env_string("TORCHELASTIC_USE_AGENT_STORE", ""));
  add("OMPI_COMM_WORLD_RANK", env_string("OMPI_COMM_WORLD_RANK", ""));
  add("OMPI_COMM_WORLD_SIZE", env_string("OMPI_COMM_WORLD_SIZE", ""));
  add("OMPI_COMM_WORLD_LOCAL_RANK", env_string("OMPI_COMM_WORLD_LOCAL_RANK", ""));
  add("OMPI_COMM_WORLD_LOCAL_SIZE", env_string("OMPI_COMM_WORLD_LOCAL_SIZE", ""));
  add("PMI_RANK", env_string("PMI_RANK", ""));
  add("PMI_SIZE", env_string("PMI_SIZE", ""));
  add("MPI_LOCALRANKID", env_string("MPI_LOCALRANKID", ""));
  add("MPI_LOCALNRANKS", env_string("MPI_LOCALNRANKS", ""));
  add("PMIX_RANK", env_string("PMIX_RANK", ""));
  add("PMIX_NAMESPACE", env_string("PMIX_NAMESPACE", ""));
  add("SLURM_PROCID", env_string("SLURM_PROCID", ""));
  add("SLURM_NTASKS", env_string("SLURM_NTASKS", ""));
  add("SLURM_LOCALID", env_string("SLURM_LOCALID", ""));
  add("SLURM_JOB_ID", env_string("SLURM_JOB_ID", ""));
  add("SLURM_NODELIST", env_string("SLURM_NODELIST", ""));
  add("SLURM_STEP_NODELIST", env_string("SLURM_STEP_NODELIST", ""));
  add("JOB_COMPLETION_INDEX", env_string("JOB_COMPLETION_INDEX", ""));
  return out;
}

Launch launch_of(const LaunchVariables& variables) {
  const Reader read(variables);
  const Rules* const rules = rules_of(read);
  require(rules || !read.has("WORLD_SIZE"), "`distributed`: WORLD_SIZE is {}, but RANK is not set",
          read.text("WORLD_SIZE"));
  require(rules,
          "`distributed`: no launcher's variables are set (RANK and WORLD_SIZE, SLURM_PROCID, "
          "OMPI_COMM_WORLD_RANK, PMI_RANK, JOB_COMPLETION_INDEX): start it by torchrun, srun, mpirun or an "
          "Indexed Job");
  require(read.has(rules->ranks),
          "`distributed`: {} is {}, but {} is not set: it tells how many ranks there are", rules->rank,
          read.text(rules->rank), rules->ranks);
  Launch out{.launcher = rules->launcher};
  out.ranks = static_cast<int>(read.number(rules->ranks, 1, kMostRanks));
  out.rank = static_cast<int>(read.number(rules->rank, 0, out.ranks - 1));
  out.local_ranks = 0;  // unknown
  if (read.has(rules->local_ranks))
    out.local_ranks = static_cast<int>(read.number(rules->local_ranks, 1, out.ranks));
  if (read.has(rules->local_rank))
    out.local_rank = static_cast<int>(read.number(rules->local_rank, 0, out.ranks - 1));
  out.host = out.ranks == 1 ? "127.0.0.1" : host_of(read, out);
  out.port = port_of(read, out);
  return out;
}

std::string unused_ranks(const LaunchVariables& variables) {
  const Reader read(variables);
  const Rules* const rules = rules_of(read);
  if (!rules || !read.has(rules->ranks) || read.text(rules->ranks) == "1") return "";
  return fmt::format("{}={}, {}={} ({})", rules->rank, read.text(rules->rank), rules->ranks,
                     read.text(rules->ranks), rules->launcher);
}

// "a[01-03,07],b2" begins with the part before the bracket and the first number in it. Several brackets
// follow one another in names like "r[1-2]n[1-4]".
std::string first_host(const std::string& list) {
  std::string out;
  for (size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      out += list[at];
      continue;
    }
    const size_t end = list.find(']', at);
    require(end != list.npos, "`distributed`: a bracket is open in SLURM_NODELIST: {}", list);
    const std::string within = list.substr(at + 1, end - at - 1);
    out += within.substr(0, within.find_first_of("-,"));
    at = end;
  }
  return out;
}

}  // namespace tachy::distributed
