"""Fills a server's folder with finished videos, faster than any server could make them: copies of the row and of the files of one that was made. The
server must not run meanwhile. Nothing is assumed of the table but the columns `id`, `seq` and the texts that are given other values."""

import json
import os
import sqlite3
import uuid

SHAPES = ["red circle", "blue square", "green triangle", "yellow star", "white ring"]


def columns_of(database, table):
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})") if row[1] != "seq"]


def prompt_of(number):
    return f"a {SHAPES[number % len(SHAPES)]} moves, number {number}"


def fill(files, source, count):
    """Enters `count` copies of the finished video `source`, the newest of which is the last one. Returns their ids in the order of their making."""
    database = sqlite3.connect(files / "tachyscope.db")
    database.row_factory = sqlite3.Row
    job = database.execute("SELECT * FROM jobs WHERE id = ?", (source,)).fetchone()
    texts = database.execute("SELECT * FROM job_texts WHERE seq = ?", (job["seq"],)).fetchone()
    ids = []
    with database:
        for number in range(count):
            id = "video_" + uuid.uuid4().hex
            copy = {name: job[name] for name in columns_of(database, "jobs")}
            copy["id"], copy["created_ms"] = id, job["created_ms"] + number + 1
            seq = insert(database, "jobs", copy)
            text = {name: texts[name] for name in columns_of(database, "job_texts")}
            text["request"] = json.dumps(json.loads(texts["request"]) | {"prompt": prompt_of(number), "seed": number})
            insert(database, "job_texts", text | {"seq": seq})
            share_folder(files / "jobs" / source, files / "jobs" / id)
            ids.append(id)
    database.close()
    return ids


def insert(database, table, row):
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    return database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values())).lastrowid


def share_folder(source, target):
    """Gives every file of a folder a second name in another one."""
    for folder, _, names in os.walk(source):
        there = target / os.path.relpath(folder, source)
        there.mkdir()
        for name in names:
            os.link(os.path.join(folder, name), there / name)


def edit(files, id, **values):
    """Gives a job other values in its columns, as if time had gone by or a disk had been cleared."""
    database = sqlite3.connect(files / "tachyscope.db")
    with database:
        database.execute(f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in values)} WHERE id = ?", [*values.values(), id])
    database.close()
