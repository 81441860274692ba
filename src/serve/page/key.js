// Addresses beside the page's own files, wherever the server has put them, and the key that a server may need. The
// key is kept as long as this tab is open.
const kName = "tachyscope-key";

export function address(name, values = {}) {
  const at = new URL(name + location.search, import.meta.url);
  for (const [name, value] of Object.entries(values)) at.searchParams.set(name, value);
  return at;
}
export const key = () => sessionStorage.getItem(kName);
export const keepKey = (text) => text ? sessionStorage.setItem(kName, text) : sessionStorage.removeItem(kName);
export const needsTickets = () => document.body.dataset.tickets === "needed";

export function ask(name, options = {}, values = {}) {
  const headers = key() ? {Authorization: `Bearer ${key()}`} : {};
  return fetch(address(name, values), {...options, headers});
}

// Returns a ticket for a socket, which cannot send the key itself; null if the key is not good.
export async function ticket() {
  if (!key()) return null;
  const reply = await ask("ticket", {method: "POST", signal: AbortSignal.timeout(10000)});
  if (reply.status === 401) return null;
  if (!reply.ok) throw new Error(`no ticket: ${reply.status}`);
  return (await reply.json()).ticket;
}
