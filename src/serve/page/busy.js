// Waits until the world is free.
async function look() {
  try {
    const state = await (await fetch("/state" + location.search)).json();
    if (!state.busy) return location.reload();
  } catch {
    // the server is gone; it may come back
  }
  setTimeout(look, 1000);
}
setTimeout(look, 1000);
