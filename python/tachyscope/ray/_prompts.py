"""A table of prompts, spread over a cluster by Ray Data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .. import _inputs, _requests
from .._engine import ArgumentTypeError
from ._actor import check_share, engine_options, need_ray, share
from ._files import Files
from ._rows import Maker, Work

READERS = {".csv": "read_csv", ".json": "read_json", ".jsonl": "read_json", ".parquet": "read_parquet", ".txt": "read_text"}


class MakerOnNode(Maker):
    """Says on which machine, too."""

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        import ray
        return {**super().__call__(row), "node": ray.get_runtime_context().get_node_id()}


def _table(source: Any) -> Any:
    """Returns a source as a Dataset of one row in each block, so that each row is a task of its own."""
    import ray.data
    if isinstance(source, ray.data.Dataset):
        return source.repartition(target_num_rows_per_block=1)
    if isinstance(source, (str, os.PathLike)):
        path = os.fsdecode(_inputs.text("source", source))
        reader = READERS.get(os.path.splitext(path)[1].lower())
        if reader is None:
            raise _inputs.wrong("source", f"expected a file with the ending {', '.join(READERS)}, got {path}")
        table = getattr(ray.data, reader)(path)
        table = table.rename_columns({"text": "prompt"}) if reader == "read_text" else table
        return table.repartition(target_num_rows_per_block=1)
    if not isinstance(source, (list, tuple)) or not source or not all(isinstance(row, (str, dict)) for row in source):
        raise _inputs.wrong_type("source", "a Dataset, a file, or a list of prompts or rows", source)
    rows = [{"prompt": row} if isinstance(row, str) else row for row in source]
    columns = dict.fromkeys(column for row in rows for column in row)
    return ray.data.from_items([{column: row.get(column) for column in columns} for row in rows], override_num_blocks=len(rows))


def _pool(actors: Any) -> tuple[int, int | None]:
    """Returns the least and the most engines."""
    least, most = actors if isinstance(actors, tuple) and len(actors) == 2 else (1, None) if actors is None else (actors, actors)
    given = [least] if most is None else [least, most]
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in given) or given != sorted(given):
        raise _inputs.wrong("actors", f"expected a number from 1 on, or the least and the most, got {actors!r}")
    return least, most


def map_prompts(source: Any, folder: str | os.PathLike[str], *, model: str | os.PathLike[str] | None = None, engine: dict[str, Any] | None = None,
                num_cpus: float = 1, num_gpus: float = 0, actors: int | tuple[int, int] | None = None, filesystem: Any = None,
                format: str = "mp4", crf: int | None = None, speed: str | None = None, carry: Sequence[str] = (), errors: str = "raise",
                ray_options: dict[str, Any] | None = None, **fields: Any) -> Any:
    """Makes a video of each row of a table, and returns a Dataset of what became of them. It is lazy as all of them are:
    `.materialize()`, `.write_parquet(…)` or a loop over `.iter_rows()` begins it.

        done = tachyscope.ray.map_prompts("prompts.csv", "/srv/videos", model="Wan2.1-T2V-1.3B", num_gpus=1, frames=81)
        for row in done.iter_rows(): print(row["path"], row["seconds"])

    source: a Dataset, a file (csv, json, jsonl, parquet, txt with a prompt in each line), or a list of prompts or of rows. A
    row has `prompt`, perhaps `name`, and any fields of a request (steps, seed, image …), of which an empty one counts as
    none. Pictures and sounds are arrays, files that each machine has, or addresses of an object store. Columns named in
    carry pass through; any other column is refused.

    folder: it is on a file system that all machines share, or an address such as s3://bucket/videos, or a path in
    pyarrow's filesystem. It gets NAME.mp4 and NAME.json, the settings (which `tachyscope generate --from` takes). A row
    without a name is called by a hash of all that decides its content. Rows whose two files are there are not made
    again, so a call that was interrupted goes on, and a row that a lost machine had is made by another one, to the same
    bits. A name that another request has is refused.

    model, engine: Engine's model (as each machine sees it) and its other options. num_cpus, num_gpus: what each
    engine gets, as for actor. actors: how many engines there are, or the least and the most of them; without it as
    many as fit into the cluster, and more when it grows. Reading a file or a Dataset takes a processor beside theirs.
    errors: "raise" ends everything at the first row that cannot be made; "keep" goes on, and the row has the text in
    `error` and the argument in `field`. ray_options: Ray's own for the actors. All else are fields of each row that
    has none of its own.

    A row of the result has name, path, prompt, seed, made (False if the files were there), seconds, node (Ray's name of
    the machine), and the columns of carry. Raises ImportError without Ray, and ArgumentError for an argument that does not fit."""
    need_ray()
    from ray.data import ActorPoolStrategy
    if errors not in ("raise", "keep"):
        raise _inputs.wrong("errors", f"expected raise or keep, got {errors!r}")
    if isinstance(carry, str) or not isinstance(carry, (list, tuple)):
        raise _inputs.wrong_type("carry", "names of columns", carry)
    if "prompt" in fields or "name" in fields:
        raise ArgumentTypeError(2, "`prompt`: it is a column of the table, as `name` is")
    cpus, gpus, given = share("num_cpus", num_cpus, 0), share("num_gpus", num_gpus, 0), dict(engine or {})
    check_share(gpus, given)
    options = engine_options({key: value for key, value in given.items() if key not in ("loras", "workers")}, cpus, gpus)
    _requests.engine_settings(options)
    _requests.requests("", dict(fields), [])
    path = None if model is None else os.fsdecode(_inputs.text("model", model))
    work = Work(path, {**given, **options}, fields, Files(folder, filesystem), format, crf, speed, tuple(carry), errors == "keep")
    least, most = _pool(actors)
    # One row at a time for each engine: rows take long, and none should wait behind another while an engine is idle.
    pool = ActorPoolStrategy(min_size=least, max_size=most, max_tasks_in_flight_per_actor=1)
    made = _table(source).map(MakerOnNode, fn_constructor_args=(work,), compute=pool, num_cpus=cpus, num_gpus=gpus or None, **(ray_options or {}))
    made.context.autoscaling_config.actor_pool_util_upscaling_threshold = 1.0  # the usual one is never reached by one row at a time
    return made
