// A list whose entries are moved by their handles: dragged by mouse or finger, or with the arrow keys. The list
// itself is not changed; whoever owns it is told, and shows the order once the server has it.

/**
 * @typedef {object} Moves
 * @property {(id: string, before: string) => void} drop the entry goes in front of the other one; "" is the end
 * @property {(id: string, by: number) => void} step the entry goes so many places down, or up
 * @property {(dragging: boolean) => void} dragging
 */

const kEdge = 60, kScroll = 12;  // pixels: near the edge of the window it scrolls

/**
 * @param {HTMLElement} list its children have `data-id`, and a handle of the class `grip`
 * @param {Moves} moves
 */
export function sortable(list, moves) {
  list.addEventListener('keydown', event => {
    const item = itemOf(event);
    const by = {ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity}[event.key];
    if (!item || by === undefined) return;
    event.preventDefault();
    moves.step(item.dataset.id ?? '', by);
  });
  list.addEventListener('pointerdown', event => {
    const item = itemOf(event);
    if (!item || event.button !== 0) return;
    drag(list, item, event, moves);
  });
}

/**
 * @param {Event} event
 * @returns {HTMLElement | null} the entry whose handle it is
 */
function itemOf(event) {
  const target = event.target instanceof Element ? event.target : null;
  return target?.closest('.grip') ? target.closest('[data-id]') : null;
}

/**
 * @param {HTMLElement} list
 * @param {HTMLElement} item
 * @param {PointerEvent} begin
 * @param {Moves} moves
 */
function drag(list, item, begin, moves) {
  const handle = /** @type {HTMLElement} */ (begin.target), from = begin.clientY + window.scrollY;
  const others = [...list.children].filter(other => other !== item && other instanceof HTMLElement && other.dataset.id);
  /** @type {Element | null} */
  let before = null;
  let moved = false;
  const mark = () => {
    for (const other of others) other.classList.toggle('drop-before', moved && other === before);
    list.classList.toggle('drop-end', moved && before === null);
  };
  /** @param {PointerEvent} event */
  const move = event => {
    const by = event.clientY + window.scrollY - from;
    if (!moved && Math.abs(by) < 4) return;
    if (!moved) moves.dragging(true), item.classList.add('dragging');
    moved = true;
    item.style.transform = `translateY(${by}px)`;
    if (event.clientY < kEdge) window.scrollBy(0, -kScroll);
    if (event.clientY > window.innerHeight - kEdge) window.scrollBy(0, kScroll);
    before = others.find(other => {
      const box = other.getBoundingClientRect();
      return event.clientY < box.top + box.height / 2;
    }) ?? null;
    mark();
  };
  /** @param {boolean} done */
  const end = done => {
    handle.removeEventListener('pointermove', move);
    handle.removeEventListener('pointerup', up);
    handle.removeEventListener('pointercancel', cancel);
    document.removeEventListener('keydown', escape, true);
    const dropped = moved && done;
    moved = false;
    mark();
    list.classList.remove('drop-end');
    item.classList.remove('dragging');
    item.style.transform = '';
    moves.dragging(false);
    if (dropped) moves.drop(item.dataset.id ?? '', before instanceof HTMLElement ? before.dataset.id ?? '' : '');
  };
  const up = () => end(true), cancel = () => end(false);
  const escape = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Escape') end(false);
  };
  handle.setPointerCapture(begin.pointerId);
  handle.addEventListener('pointermove', move);
  handle.addEventListener('pointerup', up);
  handle.addEventListener('pointercancel', cancel);
  document.addEventListener('keydown', escape, true);
}
