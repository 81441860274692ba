"""A PostgreSQL of its own for tests: on loopback, in a temporary folder, as an unprivileged user, gone at the end.

    with Database() as database:
        database.url          # postgresql://tachy:…@127.0.0.1:PORT/postgres
        database.stop(), database.start()

Debian's package postgresql has the programs. Root may not run them, so they run as `postgres`, or as `nobody`."""

import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile

PASSWORD = "only for tests"
# Nothing here must outlive a power cut.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "64MB", "max_connections": "120", "autovacuum_naptime": "5s"}


def binaries():
    """Returns the folder of PostgreSQL's programs, or None if there are none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl"), key=lambda path: float(path.split("/")[4]))
    path = found[-1] if found else shutil.which("pg_ctl")
    return pathlib.Path(path).parent if path else None


def free_port(host):
    with socket.socket() as one:
        one.bind((host, 0))
        return one.getsockname()[1]


class Database:
    def __init__(self, host="127.0.0.1", settings=None, folder=None):
        self.host, self.bin = host, binaries()
        assert self.bin, "PostgreSQL is not here"
        self.user = self._user()
        if folder:  # one that another process has made
            self.folder = pathlib.Path(folder)
            self.port = int((self.folder / "port").read_text())
            return
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tachyscope-postgres-"))
        self.port = free_port("127.0.0.1")
        (self.folder / "port").write_text(str(self.port))
        (self.folder / "password").write_text(PASSWORD)
        if self.user:
            for path in (self.folder, self.folder / "password"):
                os.chown(path, self.user.pw_uid, self.user.pw_gid)
        self._run("initdb", "-D", self.data, "-U", "tachy", "--pwfile", self.folder / "password", "-A", "scram-sha-256", "-E", "UTF8",
                  "--locale=C.UTF-8", "--no-sync")
        lines = [f"listen_addresses = '{host}'", f"port = {self.port}", f"unix_socket_directories = '{self.folder}'"]
        lines += [f"{name} = '{value}'" for name, value in (SETTINGS | (settings or {})).items()]
        with open(self.data / "postgresql.conf", "a") as conf:
            conf.write("\n".join(lines) + "\n")
        with open(self.data / "pg_hba.conf", "a") as rules:
            rules.write("host all all all scram-sha-256\n")
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _user():
        """Returns the user as whom the programs run, or None for this one."""
        if os.geteuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            with contextlib.suppress(KeyError):
                return pwd.getpwnam(name)
        raise SystemExit("root cannot run PostgreSQL, and there is no user for it")

    @property
    def data(self):
        return self.folder / "data"

    @property
    def url(self):
        return self.url_of("tachy", PASSWORD)

    def url_of(self, user, password, name="postgres"):
        return f"postgresql://{user}:{password.replace(' ', '%20')}@{self.host}:{self.port}/{name}"

    def _run(self, program, *words):
        command = [str(word) for word in (self.bin / program, *words)]
        if self.user:
            command = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", *command]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder)
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stdout.decode(errors='replace')[-2000:]}")

    def start(self):
        self._run("pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "-t", "60", "-s", "start")

    def stop(self, how="fast"):
        """Stops it: `fast` ends its connections, `immediate` is a crash."""
        self._run("pg_ctl", "-D", self.data, "-w", "-t", "60", "-s", "-m", how, "stop")

    def restart(self, how="fast"):
        self.stop(how)
        self.start()

    def ask(self, sql):
        """Runs statements as the administrator, and returns what psql prints."""
        return subprocess.run([str(self.bin / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", self.url, "-c", sql], check=True, stdout=subprocess.PIPE,
                              text=True).stdout.strip()

    def close(self):
        with contextlib.suppress(RuntimeError):
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
