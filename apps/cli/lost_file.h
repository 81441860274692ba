// Says which file cannot be read any more when that ends the process: mapped memory has no other way to fail.
#pragma once

namespace tachy::cli {

void end_at_lost_files();  // from now on

}  // namespace tachy::cli
