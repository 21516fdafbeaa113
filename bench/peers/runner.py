# SPDX-License-Identifier: Apache-2.0
"""Environments, and one turn of one entrant: a separate process, under a lock, with what else used the machine meanwhile."""
import contextlib
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

import roster

HERE = os.path.dirname(os.path.abspath(__file__))
LOCK = os.path.join(tempfile.gettempdir(), "measure.lock")
LIMIT_SECONDS = 180  # a turn that takes longer is given up
BUSY = 0.15  # cores used by others from which on a turn counts as disturbed


class Failed(Exception):
    """An entrant that cannot run, with the reason in a few words."""


def claim(folder):
    """A folder to work in, in which things are removed: a new one, an empty one, or one that was claimed before."""
    if subprocess.run([os.path.join(HERE, "..", "..", "scripts", "ours"), "claim", "bench", folder]).returncode:
        raise SystemExit(1)


# ---- environments ----

def check_environment(folder):
    """`venv --clear` empties whatever it is given."""
    if os.path.isdir(folder) and os.listdir(folder) and not os.path.exists(os.path.join(folder, "pyvenv.cfg")):
        raise OSError(f"{folder}: is there already and no environment of Python; it is left as it is")


def python_of(environments, name):
    return os.path.join(environments, name, "bin", "python")


def site_packages(python):
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def setup(environments, torch_python, base_python):
    """Creates what is missing; a failure concerns the one environment only. Returns how many failed. With the Python of
    an environment that has torch and torchvision already, these are taken from there."""
    failed = 0
    for name, wanted in roster.ENVIRONMENTS.items():
        done = os.path.join(environments, name, "complete")
        if os.path.exists(done):
            continue
        print(f"{name}: installing", flush=True)
        python, steps = python_of(environments, name), list(wanted["steps"])
        try:
            check_environment(os.path.dirname(os.path.dirname(python)))
            subprocess.run([base_python, "-m", "venv", "--clear", os.path.dirname(os.path.dirname(python))], check=True)
            lender = torch_python if name == roster.TORCH else python_of(environments, roster.TORCH)
            if wanted["needs_torch"] or (name == roster.TORCH and torch_python):
                with open(os.path.join(site_packages(python), "lent.pth"), "w", encoding="utf-8") as path:
                    path.write("\n".join(lent_paths(lender)) + "\n")
            for step in steps:
                subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *step],
                               check=True)
            open(done, "w", encoding="ascii").close()
        except (subprocess.CalledProcessError, OSError) as error:
            failed += 1
            print(f"{name}: not installed: {error}", file=sys.stderr)
    return failed


def lent_paths(python):
    """Where that Python finds its packages: its own folder and what it was lent in turn."""
    code = "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def versions(environments):
    """Of the recorded packages, per environment, as the environment itself sees them."""
    code = ("import importlib.metadata as m, json, sys\nfound = {'python': sys.version.split()[0]}\n"
            "for name in sys.argv[1:]:\n  try: found[name] = m.version(name)\n"
            "  except m.PackageNotFoundError: pass\nprint(json.dumps(found))")
    found = {}
    for name in roster.ENVIRONMENTS:
        python = python_of(environments, name)
        if os.path.exists(python):
            answer = subprocess.run([python, "-c", code, *roster.RECORDED], capture_output=True, text=True)
            if answer.returncode == 0:
                found[name] = json.loads(answer.stdout)
    return found


# ---- a turn ----

def busy_seconds():
    """CPU time of the whole machine."""
    with open("/proc/stat", encoding="ascii") as stat:
        fields = [int(field) for field in stat.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def reason(text):
    """The last line of what a program said before it failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no word why"


@contextlib.contextmanager
def alone():
    """Among those who take the lock."""
    with open(LOCK, "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_locked(command, variables=None, cwd=None):
    """Runs it alone. Returns its stdout and the cores others used meanwhile."""
    with alone():
        start, busy, own = time.monotonic(), busy_seconds(), children_seconds()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
                                   env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(variables or {})},
                                   start_new_session=True)
        try:
            out, said = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done in {LIMIT_SECONDS} s") from None
        finally:  # also what it may have left behind; the group holds only what was started above
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        others = (busy_seconds() - busy - (children_seconds() - own)) / (time.monotonic() - start)
    if process.returncode:
        raise Failed(reason(said))
    return out, max(0.0, others)


def peer_turn(entrant, settings):
    python = python_of(settings.environments, entrant.environment)
    if not os.path.exists(python):
        raise Failed("not installed")
    command = [python, "-m", f"peers.{entrant.module}", "--data", settings.folder, "--seconds", str(settings.seconds),
               *entrant.arguments]
    variables = {name: value.format(package=settings.package) for name, value in entrant.variables.items()}
    out, others = run_locked(command, variables, HERE)
    result = json.loads(out.strip().splitlines()[-1])
    return {"cpu_ms": result.pop("cpu_ms_per_sample"), "others": others, **result}


def stoke_command(entrant, settings, *command):
    places = {"folder": settings.folder, "shards": os.path.join(settings.folder, "shards"),
              "cache": os.path.join(settings.folder, "cache")}
    return [settings.stoke, *command, *(argument.format(**places) for argument in entrant.arguments), "--size", "512",
            "--batch", "32", "--workers", "2", "--json", "--quiet"]


def stoke_turn(entrant, settings):
    """Our own entrant and, measured in turns with it by the same command, bare decoding."""
    command = stoke_command(entrant, settings, "bench", "data")
    out, others = run_locked(command + ["--samples", "256", "--rounds", "1", "--seconds", str(2 * settings.seconds)])
    result = json.loads(out)
    ours = {"samples_per_s": result["samples_per_s"], "cpu_ms": result["cpu_ms_per_sample"], "others": others,
            "memory_bytes": result["peak_rss_bytes"]}
    bare = {"samples_per_s": result["decode_only_samples_per_s"], "cpu_ms": result["decode_only_cpu_ms_per_sample"],
            "others": others}
    return ours, bare


def stoke_digest(entrant, settings):
    """Of an epoch's batches. Fills the cache of an entrant that has one, so that the timed turns find it full."""
    command = stoke_command(entrant, settings, "hash")
    if "{cache}" in entrant.arguments:
        run_locked(command)
    return json.loads(run_locked(command)[0])["all"]


def prepare_peer(entrant, settings):
    """FFCV reads only files it has written."""
    python = python_of(settings.environments, entrant.environment)
    if entrant.module == "ffcv" and os.path.exists(python):
        run_locked([python, "-m", "peers.ffcv", "--prepare", "--data", settings.folder], None, HERE)
