// Tests what each launcher's variables mean, and what is said of variables that do not fit together.
#include "distributed/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tachy::distributed {
namespace {

using testing::HasSubstr;

std::string refusal(const LaunchVariables& variables) {
  try {
    launch_of(variables);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.message();
  }
  return "nothing";
}

void expect_launch(const LaunchVariables& variables, int rank, int ranks, int local_rank,
                   const std::string& host) {
  const Launch launch = launch_of(variables);
  EXPECT_EQ(launch.rank, rank) << launch.launcher;
  EXPECT_EQ(launch.ranks, ranks) << launch.launcher;
  EXPECT_EQ(launch.local_rank, local_rank) << launch.launcher;
  EXPECT_EQ(launch.host, host) << launch.launcher;
}

TEST(Launch, IsReadFromEachLaunchersVariables) {
  expect_launch({{"RANK", "3"},
                 {"WORLD_SIZE", "4"},
                 {"LOCAL_RANK", "1"},
                 {"LOCAL_WORLD_SIZE", "2"},
                 {"MASTER_ADDR", "node0"},
                 {"MASTER_PORT", "1234"}},
                3, 4, 1, "node0");
  expect_launch({{"OMPI_COMM_WORLD_RANK", "2"},
                 {"OMPI_COMM_WORLD_SIZE", "4"},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
                2, 4, 2, "127.0.0.1");
  expect_launch({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "a"}}, 1, 2, 0, "a");
  expect_launch({{"SLURM_PROCID", "5"},
                 {"SLURM_NTASKS", "8"},
                 {"SLURM_LOCALID", "1"},
                 {"SLURM_NODELIST", "all[1-9]"},
                 {"SLURM_STEP_NODELIST", "n[03-05,9]"}},
                5, 8, 1, "n03");
  expect_launch({{"PMIX_RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, 1, 2, 0, "a");
  expect_launch({{"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "clip-0.ranks"}}, 1, 3,
                0, "clip-0.ranks");
}

TEST(Launch, OfMpirunInsideSlurmIsMpiruns) {
  expect_launch({{"SLURM_PROCID", "0"},
                 {"SLURM_NTASKS", "1"},
                 {"OMPI_COMM_WORLD_RANK", "2"},
                 {"OMPI_COMM_WORLD_SIZE", "3"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}},
                2, 3, 0, "127.0.0.1");
}

TEST(Launch, ThePortIsThatOfTheJob) {
  const auto port = [](LaunchVariables more) {
    more.insert({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "a,b"}});
    return launch_of(more).port;
  };
  EXPECT_EQ(port({{"MASTER_PORT", "4000"}}), 4000);
  EXPECT_EQ(port({}), 29500);
  const uint16_t one = port({{"SLURM_JOB_ID", "71"}});
  EXPECT_EQ(port({{"SLURM_JOB_ID", "71"}}), one);
  EXPECT_NE(port({{"SLURM_JOB_ID", "72"}}), one);
  EXPECT_GE(one, 20000);
  EXPECT_LT(one, 30000);
}

TEST(Launch, ThePortOfTorchrunsAgentIsLeftToIt) {
  const auto port = [](LaunchVariables more) {
    more.insert({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29400"}});
    return launch_of(more).port;
  };
  EXPECT_EQ(port({}), 29400);
  EXPECT_EQ(port({{"TORCHELASTIC_USE_AGENT_STORE", "False"}}), 29400);
  EXPECT_NE(port({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), 29400);
  EXPECT_LT(port({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}), 30000);
}

TEST(Launch, WhatDoesNotFitTogetherIsNamed) {
  EXPECT_THAT(refusal({}), HasSubstr("no launcher's variables are set"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "4"}}),
              HasSubstr("there are 4 ranks (torchrun), but MASTER_ADDR is not set"));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}}), HasSubstr("RANK is not set"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"MASTER_ADDR", "a"}}), HasSubstr("WORLD_SIZE is not set"));
  EXPECT_THAT(refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}}),
              HasSubstr("RANK: expected 0 to 3, got '4'"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "1e3"}, {"MASTER_ADDR", "a"}}),
              HasSubstr("WORLD_SIZE: expected 1 to 256, got '1e3'"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "0"}}),
              HasSubstr("MASTER_PORT: expected 1 to 65535, got '0'"));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_RANK", "0"},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
              HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(refusal({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_NODELIST", "a[1-"}}),
              HasSubstr("a bracket is open"));
}

TEST(Launch, UnusedVariablesAreToldIfTheyAnnounceOtherRanks) {
  EXPECT_EQ(unused_ranks({}), "");
  EXPECT_EQ(unused_ranks({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}), "");
  EXPECT_EQ(unused_ranks({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}),
            "SLURM_PROCID=0, SLURM_NTASKS=8 (Slurm)");
  EXPECT_EQ(unused_ranks({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), "RANK=1, WORLD_SIZE=2 (torchrun)");
}

TEST(Launch, TheFirstHostOfAListIsFound) {
  EXPECT_EQ(first_host("node7"), "node7");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("a[01-03,07],b2"), "a01");
  EXPECT_EQ(first_host("a[7,9-12]"), "a7");
  EXPECT_EQ(first_host("r[1-2]n[3-4].x"), "r1n3.x");
}

}  // namespace
}  // namespace tachy::distributed
