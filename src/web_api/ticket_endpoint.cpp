// Tickets for the sockets of worlds, where the server has keys: a browser cannot send a key with a WebSocket, so its
// page fetches a ticket with the key and sends it as the socket's first message.
#include "base/json_text.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/links.h"

namespace tachy::web_api {
namespace {

http::Reply create_ticket(Service& service, http::Request& request) {
  const std::string& name = request.captures.at(0);
  const workers::ServedModel* const model = name.empty() ? nullptr : service.offers.models.find(name);
  if (!model || !model->world) throw ApiError("not_found", "there is no world with this name");
  if (!service.tickets) throw ApiError("not_found", "this server has no keys, so nobody needs a ticket");
  try {
    const std::string ticket = service.tickets->issue(request.caller, now_ms() / 1000);
    http::Reply reply = http::json_reply(
        200, json_line({{"object", "world.ticket"}, {"ticket", ticket}, {"seconds", kTicketSeconds}}));
    reply.headers.emplace_back("Cache-Control", "no-store");
    return reply;
  } catch (const Error& e) {
    throw ApiError("not_available", e.message());
  }
}

}  // namespace

void add_ticket_endpoint(Endpoints& to) {
  to.push_back({.method = "POST",
                .pattern = "/world/{name}/ticket",
                .id = "createTicket",
                .means = "Returns a ticket, which the socket of a world's page sends as its first message.",
                .answer = create_ticket,
                .reply = "Ticket"});
}

}  // namespace tachy::web_api
