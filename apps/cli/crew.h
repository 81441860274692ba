// `--distributed`: the processes that a launcher has started make each video together. Rank 0 is the one that
// the user sees: it names outputs, writes files and reports. The others compute with it and print errors
// alone.
#pragma once

#include <memory>
#include <vector>

#include "distributed/tcp_crew.h"
#include "generate_options.h"
#include "jobs/job_spec.h"

namespace tachy::cli {

// Returns the crew of a command with --distributed, whose ranks have not met. Without the option it returns
// null, and says so if a launcher's variables announce several ranks.
std::shared_ptr<distributed::TcpCrew> launched_crew(const GenerateOptions& options);

// Lets the ranks meet. All take the seeds that rank 0 has drawn.
void join_crew(distributed::TcpCrew& crew, std::vector<jobs::JobSpec>& all);

// Throws in all ranks if one has another version, model, request, device or instruction set than rank 0: it
// would compute other bits.
void compare_in_crew(distributed::TcpCrew& crew, const Engine& engine, const jobs::JobSpec& job,
                     const PreparedRequest& prepared);

}  // namespace tachy::cli
