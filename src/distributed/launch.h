// A launcher of several processes tells each of them in its environment which rank it is, how many there
// are, and where rank 0 waits. No library of a launcher is linked. These are the rules, with where they come
// from:
//
//   torchrun     RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT ("Environment
//                Variables" of PyTorch's docs/elastic/run)
//   Open MPI     OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE (mpirun(1), "Exported Environment
//                Variables")
//   PMI          PMI_RANK and PMI_SIZE (MPICH's Hydra, PMI-1 API), with MPI_LOCALRANKID and MPI_LOCALNRANKS;
//                PMIX_RANK and PMIX_NAMESPACE (the PMIx standard, "environment"), which say no size
//   Slurm        SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_JOB_ID, SLURM_STEP_NODELIST or _NODELIST
//                (srun(1), "OUTPUT ENVIRONMENT VARIABLES")
//   Kubernetes   JOB_COMPLETION_INDEX (documentation of Indexed Jobs), which says no size
//
// The first row that applies counts: mpirun inside a Slurm job sets both its own and Slurm's variables, and
// only its own are right. MASTER_ADDR, MASTER_PORT and WORLD_SIZE fill in what a launcher does not tell.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tachy::distributed {

struct Launch {
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 1;  // among the ranks of this host
  std::string host;                     // where rank 0 waits
  uint16_t port = 0;
  std::string launcher;  // "torchrun", "Open MPI", "PMI", "Slurm", "Kubernetes"
};

using LaunchVariables = std::map<std::string, std::string>;

// Returns the launchers' variables that are set.
LaunchVariables launch_variables();

// Throws invalid_argument, naming the variable, if there are none, or if they do not fit together.
Launch launch_of(const LaunchVariables& variables);

// Returns words for a run that does not use the variables ("RANK=0, WORLD_SIZE=4 (torchrun)"), or "" if they
// announce no second rank.
std::string unused_ranks(const LaunchVariables& variables);

// Returns the first host of Slurm's notation: "a01" for "a[01-03,07],b2".
std::string first_host(const std::string& node_list);

}  // namespace tachy::distributed
