// The worlds among a server's models, each of which has a page (serve/world_door.h).
#pragma once

#include "serve/world_door.h"
#include "web_api/links.h"
#include "workers/foreman.h"
#include "workers/models.h"

namespace tachy::serve_app {

// `tickets` is null where nobody needs one. All three outlive the door.
serve::WorldDoorOptions world_door_options(workers::Models& models, workers::Foreman& foreman,
                                           web_api::Tickets* tickets);

}  // namespace tachy::serve_app
