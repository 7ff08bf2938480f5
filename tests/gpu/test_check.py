#!/usr/bin/env python3
"""check.sh and the benchmark of a bundle, on a bundle whose programs are stand-ins that need no GPU.

Always true: nothing outside a temporary folder is written, PyTorch is absent whatever is installed here, and a limit of
check.sh is waited for one second instead of minutes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]

# Trains at once: it leaves what compare.py and check.sh read in the folder that it is told.
RECOLLECT = r"""#!/bin/sh
case "$*" in
  doctor*) printf 'GPU\n  a stand-in\n\n'; exit 0 ;;
esac
for word in "$@"; do
  case "$word" in
    output_dir=*) output=${word#output_dir=} ;;
    training.max_steps=*) steps=${word#training.max_steps=} ;;
  esac
done
mkdir -p "$output"
step=0
while [ $step -lt ${steps:-2} ]; do
  step=$((step + 1))
  echo '{"loss": 2.5, "grad_norm": 1.5, "step_seconds": 0.25}'
done >"$output/metrics.jsonl"
cat >"$output/memory.rank0.json" <<'END'
{"measured": {"arena": 1073741824}, "predicted": {"arena": 1073741824}, "step": {"measured": {"exposed": 0}}}
END
"""

# Passes, but for one line of check.sh: that one never ends, and neither does what it has started.
TEST_GPU = r"""#!/bin/bash
if [[ "$*" == *MemoryOnGpu* ]]; then
  trap '' TERM
  echo "the device does not answer"
  sleep 3600 & echo $! >"$CHECK_TEST_FOLDER/left"
  while true; do sleep 3600; done
fi
echo '[  PASSED  ] 3 tests.'
"""

# Hands its limit on, a second for what will not end.
TIMEOUT = r"""#!/bin/bash
echo "$*" >>"$CHECK_TEST_FOLDER/limits"
if [[ "$*" == *MemoryOnGpu* ]]; then set -- --signal=KILL 1 "${@:3}"; fi
exec REAL "$@"
"""


class Bundle:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "path").mkdir()
        (folder / "share/bench").mkdir(parents=True)
        (folder / "without").mkdir()
        (folder / "without/torch.py").write_text("raise ImportError('no torch in this test')\n", encoding="utf-8")
        shutil.copy(SOURCE / "tests/gpu/check.sh", folder)
        shutil.copy(SOURCE / "tests/gpu/tiny.yaml", folder / "share")
        for name in ("compare.py", "torch_step.py"):
            shutil.copy(SOURCE / "tests/bench/gpu" / name, folder / "share/bench")
        self.write("bin/recollect", RECOLLECT)
        self.write("bin/test_gpu", TEST_GPU)
        self.write("path/timeout", TIMEOUT.replace("REAL", shutil.which("timeout") or "timeout"))
        self.write("path/compute-sanitizer", '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift 2; done\nexec "$@"\n')

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / name).chmod(0o755)

    def environment(self) -> dict[str, str]:
        path = f"{self.folder / 'path'}:{os.environ['PATH']}"
        own = {"PATH": path, "PYTHONPATH": str(self.folder / "without"), "CHECK_TEST_FOLDER": str(self.folder)}
        return {**os.environ, **own}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment(), timeout=120, check=False
        )

    def left(self) -> int:
        """The process that the line which hangs has started, once it has."""
        text = ""
        for _ in range(600):
            with contextlib.suppress(FileNotFoundError):
                text = (self.folder / "left").read_text(encoding="utf-8")
            if text.endswith("\n"):
                return int(text)
            time.sleep(0.05)
        raise AssertionError("the line has not begun")


class CheckTest(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="recollect-check-")
        self.addCleanup(holder.cleanup)
        self.bundle = Bundle(Path(holder.name))

    def compare(self, *words: str) -> subprocess.CompletedProcess[str]:
        script = str(self.bundle.folder / "share/bench/compare.py")
        program = str(self.bundle.folder / "bin/recollect")
        return self.bundle.run(sys.executable, script, "--recollect", program, "--rounds=1", "--steps=2", *words)

    def test_the_benchmark_measures_us_without_pytorch(self) -> None:
        done = self.compare()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Without PyTorch: ImportError: no torch in this test", done.stdout)
        self.assertEqual(done.stdout.count("| none | 250.00 |"), 2, done.stdout)
        self.assertNotIn("torch eager", done.stdout)

    def test_the_benchmark_says_what_it_could_not_measure(self) -> None:
        self.bundle.write("bin/recollect", "#!/bin/sh\necho 'no device today' >&2\nexit 4\n")
        done = self.compare("--models", "124M")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Not measured: 124M none, round 1: no device today", done.stdout)

    def test_a_line_that_hangs_is_ended_and_the_others_run(self) -> None:
        done = self.bundle.run(str(self.bundle.folder / "check.sh"))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        rows = [row for row in done.stdout.splitlines() if row.endswith(" s") and (" ok " in row or " FAILED " in row)]
        self.assertEqual(len(rows), 9, done.stdout)
        failed = [row for row in rows if " FAILED " in row]
        self.assertEqual(len(failed), 1, done.stdout)
        self.assertTrue(failed[0].startswith("memory against the driver"), failed)
        self.assertIn("the device does not answer", done.stdout)
        self.assertRegex(done.stdout, r"\(killed; its limit is \d+ s\)")
        self.assertTrue(ends(self.bundle.left()), "what a line has started ends with it")

    def test_who_ends_it_ends_what_it_runs(self) -> None:
        check = str(self.bundle.folder / "check.sh")
        (self.bundle.folder / "path/timeout").unlink()  # the real one, whose limit is far away
        with subprocess.Popen([check], env=self.bundle.environment(), stdout=subprocess.DEVNULL) as running:
            left = self.bundle.left()
            running.terminate()
            self.assertEqual(running.wait(timeout=30), 130)
        self.assertTrue(ends(left))

    def test_each_line_has_a_limit(self) -> None:
        self.bundle.write("bin/test_gpu", "#!/bin/sh\necho '[  PASSED  ] 3 tests.'\n")
        done = self.bundle.run(str(self.bundle.folder / "check.sh"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        limits = (self.bundle.folder / "limits").read_text(encoding="utf-8").splitlines()
        limits = [line.split()[1] for line in limits if line.startswith("--signal=KILL")]
        self.assertEqual(len(limits), 10, "nine lines, and doctor")
        for limit in limits:
            self.assertGreaterEqual(int(limit), 60)


def ends(process: int) -> bool:
    """Whether a process is gone within seconds; one that nobody has waited for counts as gone."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


if __name__ == "__main__":
    unittest.main()
