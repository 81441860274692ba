"""Measures how compact blocks of 128 tokens are in several orders of a video's tokens: the mean over blocks of the mean squared distance of a block's tokens to
its middle, in tokens, and the worst block's. A cube of 128 tokens has 6.1, a box of 4 x 4 x 8 7.75.

    python3 bench/lab/token_orders.py        # needs NumPy

rods is the order of src/models/wan/sparse.h, for sides of 4, 5 and 6. tiles: frames, rows and columns are cut at regular distances, with smaller
tiles at the ends, tile after tile (Sliding Tile Attention's order, if the grid can be divided evenly). Morton and Hilbert are curves of the enclosing
cube without the places outside the grid."""

import itertools

import numpy as np

BLOCK = 128
GRIDS = {"shipped, 33 frames of 128x128": (9, 8, 8), "480p": (21, 30, 52), "720p": (21, 45, 80), "5B, 704p": (31, 22, 40)}


def coordinates(grid):
    return np.array(list(itertools.product(*map(range, grid))))


def tiles(grid, tile):
    at = coordinates(grid)
    of = at // np.array(tile)
    return at[np.lexsort((at[:, 2], at[:, 1], at[:, 0], of[:, 2], of[:, 1], of[:, 0]))]


def rods(grid, side=5):
    slabs, high = (max(1, (2 * n + side) // (2 * side)) for n in grid[:2])
    out = []
    for slab, rod in itertools.product(range(slabs), range(high)):
        i = rod if slab % 2 == 0 else high - 1 - rod
        columns = range(grid[2]) if (slab * high + rod) % 2 == 0 else range(grid[2] - 1, -1, -1)
        frames = range(slab * grid[0] // slabs, (slab + 1) * grid[0] // slabs)
        out += [(t, h, w) for w in columns for t in frames for h in range(i * grid[1] // high, (i + 1) * grid[1] // high)]
    return np.array(out)


def interleaved(axes, bits):
    key = np.zeros_like(axes[0])
    for bit, axis in itertools.product(range(bits - 1, -1, -1), axes):
        key = (key << 1) | ((axis >> bit) & 1)
    return key


def morton(grid):
    at = coordinates(grid)
    return at[np.argsort(interleaved(list(at.T), max(grid).bit_length()))]


def hilbert(grid):
    """Skilling, Programming the Hilbert curve (2004)."""
    at = coordinates(grid)
    x, bits = at.T.copy(), max(grid).bit_length()
    for power in (1 << b for b in range(bits - 1, 0, -1)):
        for i in range(3):
            swapped = np.where((x[i] & power) != 0, 0, (x[0] ^ x[i]) & (power - 1))
            x[0] ^= np.where((x[i] & power) != 0, power - 1, swapped)
            x[i] ^= swapped
    x[1] ^= x[0]
    x[2] ^= x[1]
    turn = np.zeros_like(x[0])
    for power in (1 << b for b in range(bits - 1, 0, -1)):
        turn = np.where((x[2] & power) != 0, turn ^ (power - 1), turn)
    return at[np.argsort(interleaved(list(x ^ turn), bits))]


def spread(order):
    blocks = (order[i:i + BLOCK].astype(float) for i in range(0, len(order), BLOCK))
    values = [((block - block.mean(0)) ** 2).sum(1).mean() for block in blocks]
    return np.mean(values), np.max(values)


def main():
    orders = {"frames, rows, columns": coordinates, "tiles of 4x4x8": lambda g: tiles(g, (4, 4, 8)), "tiles of 8x4x4": lambda g: tiles(g, (8, 4, 4)), "Morton": morton,
              "Hilbert": hilbert, "rods of 4x4": lambda g: rods(g, 4), "rods of 5x5": rods, "rods of 6x6": lambda g: rods(g, 6)}
    print(f"{'':24}" + "".join(f"{name:>32}" for name in GRIDS))
    for name, order in orders.items():
        print(f"{name:24}" + "".join(f"{mean:22.1f} ({worst:7.1f})" for mean, worst in (spread(order(grid)) for grid in GRIDS.values())))


if __name__ == "__main__":
    main()
