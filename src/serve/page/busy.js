// Waits until the world is free.
import {ask} from "./key.js";

async function look() {
  try {
    const state = await (await ask("state")).json();
    if (!state.busy) return location.reload();
  } catch {
    // the server is gone; it may come back
  }
  setTimeout(look, 1000);
}
setTimeout(look, 1000);
