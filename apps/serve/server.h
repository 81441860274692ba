// Puts the rooms of a server together: the folder of its files, the table, the models, the jobs' foreman, the HTTP
// server with its gate, metrics and webhooks.
#pragma once

#include "cli/serve_options.h"

namespace tachy::serve_app {

// Serves until the process is asked to end (ending.h) and returns the exit code. Throws what is wrong at the start: io if
// another server has the folder or the port, not_found, and invalid_argument.
int serve(const cli::ServeOptions& options);

}  // namespace tachy::serve_app
