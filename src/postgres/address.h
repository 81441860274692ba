// The address of a database, postgresql://USER@HOST:PORT/NAME, as libpq reads it.
#pragma once

#include <string>

namespace tachy::postgres {

// Throws invalid_argument for anything else, without repeating it, since it may hold a password; and
// unsupported if libpq is not here.
void check_address(const std::string& address);

// Returns the address for messages: host, port and name, without user and password.
std::string shown_address(const std::string& address);

}  // namespace tachy::postgres
