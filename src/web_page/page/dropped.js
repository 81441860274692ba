// Files that are dropped beside the places for files. Without this a browser opens such a file in place of the page, and
// all that was typed is gone.

/** @param {DragEvent} event */
const hasFiles = event => event.dataTransfer?.types.includes('Files') ?? false;

/**
 * Gives files that are dropped anywhere, and that nothing else has taken, to `take`. A picture of the page that is
 * dragged within it, by chance or to see what happens, goes nowhere.
 * @param {(files: File[]) => void} take
 */
export function catchFiles(take) {
  let own = false;
  document.addEventListener('dragstart', () => { own = true; });
  document.addEventListener('dragend', () => { own = false; });
  document.addEventListener('dragover', event => { if (hasFiles(event)) event.preventDefault(); });
  document.addEventListener('drop', event => {
    if (event.defaultPrevented || !hasFiles(event)) return;
    event.preventDefault();
    const files = [...event.dataTransfer?.files ?? []];
    if (files.length && !own) take(files);
  });
}
