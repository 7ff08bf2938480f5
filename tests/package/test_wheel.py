#!/usr/bin/env python3
"""A wheel of this build's program, installed by pip in a fresh environment: what the module predicts, yields and loads is what
the program says. Usage: test_wheel.py PROGRAM [PORTABLE_PROGRAM]. Exit code 77 where there is no pip or no venv."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

SKIPPED = 77
SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = SOURCE / "launch/package/wheel/build.py"
CONFIG = {
    "model": {"type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "vocab_size": 64, "n_positions": 16},
    "data": {"format": "random", "high": 64, "sequence_length": 8},
    "training": {"micro_batch_size": 2, "max_steps": 4},
    "evaluation": {"format": "random", "every_steps": 2, "batches": 1},
    "device": {"threads": 1}, "memory_report": {"at": ["end"], "formats": ["json"]},
}
# What a test's own process cannot be: the environment's Python, which has nothing but the wheel.
INSIDE = "RECOLLECT_TEST_INSIDE"


def output_of(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


class Installed(unittest.TestCase):
    def setUp(self):
        import recollect
        self.recollect = recollect
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def train(self, overrides=None, **options):
        return self.recollect.train(CONFIG, {"output_dir": self.folder / "out", **(overrides or {})}, **options)

    def test_is_typed_and_all_there(self):
        where = pathlib.Path(self.recollect.__file__).parent
        self.assertTrue(where.is_relative_to(sys.prefix), where)
        self.assertTrue((where / "py.typed").is_file())
        for name in self.recollect.__all__:
            self.assertTrue(getattr(self.recollect, name).__doc__, name)

    def test_the_script_is_the_program(self):
        script = pathlib.Path(sys.prefix) / "bin/recollect"
        said = output_of(self.recollect.program(), "--version")
        self.assertTrue(said.startswith("recollect "))
        self.assertEqual(output_of(script, "--version"), said)
        self.assertEqual(output_of(sys.executable, "-m", "recollect", "--version"), said)
        self.assertEqual(subprocess.run([script, "trian"], capture_output=True).returncode, 2)

    def test_values_of_any_kind(self):
        class Number:  # as NumPy's and PyTorch's numbers are
            def tolist(self):
                return 4
        for settings in ({"training.micro_batch_size": Number()}, {"training.micro_batch_size": 4}):
            found = self.recollect.estimate(CONFIG, settings).device
            self.assertEqual(found, self.recollect.estimate({**CONFIG, "training": {"micro_batch_size": Number(), "max_steps": 4}}).device)
        with self.assertRaisesRegex(TypeError, "data.path: a set is no text"):
            self.recollect.estimate(CONFIG, {"data.path": {1}})
        with self.assertRaisesRegex(ValueError, "ranks is 0"):
            self.train(ranks=0)

    def test_estimates(self):
        path = self.folder / "c.json"
        path.write_text(json.dumps(CONFIG))
        said = json.loads(output_of(self.recollect.program(), "estimate", path, "training.micro_batch_size=4", "--json"))
        estimate = self.recollect.estimate(path, {"training.micro_batch_size": 4})
        self.assertEqual(estimate.json["memory"], said["memory"])  # what a process holds at its start differs by pages
        self.assertEqual(estimate.ranks, 1)
        self.assertEqual(estimate.device, said["memory"]["arena"])
        self.assertEqual(sum(estimate.phases["backward"].categories.values()), estimate.phases["backward"].total)
        self.assertGreater(estimate.device, self.recollect.estimate(CONFIG).device)

    def test_yields_what_metrics_jsonl_has(self):
        seen = list(self.train())
        self.assertEqual([(type(one).__name__, one.step) for one in seen],
                         [("Step", 1), ("Step", 2), ("Evaluation", 2), ("Step", 3), ("Step", 4), ("Evaluation", 4)])
        run = self.recollect.load(self.folder / "out")
        self.assertEqual([one for one in seen if isinstance(one, self.recollect.Step)], list(run.steps))
        self.assertEqual([one for one in seen if isinstance(one, self.recollect.Evaluation)], list(run.evaluations))
        self.assertAlmostEqual(run.results.loss, sum(step.loss for step in run.steps) / 4)
        self.assertEqual(run.results.device_memory_peak, self.recollect.estimate(CONFIG).device)
        self.assertIsNone(run.model)
        self.assertEqual(run.report()["rank"], 0)
        again = self.recollect.estimate(run.config)
        self.assertEqual(again.device, run.results.device_memory_peak)

    def test_ranks_a_model_and_the_users_own_hook(self):
        heard = self.folder / "it's heard"
        hook = f"head -n 1 > \"{heard}\""  # reads no more than that, and ends
        training = self.train({"parallelism.tensor_parallel_size": 2, "checkpoint.save_model": True, "logging.hook": hook},
                              ranks=2)
        run = training.wait()
        self.assertEqual(training.warnings, "")
        self.assertEqual(len(run.steps), 4)
        self.assertEqual(run.model, run.path)
        self.assertEqual(json.loads(heard.read_text())["loss"], run.steps[0].loss)
        self.assertEqual(run.report(rank=1)["rank"], 1)

    def test_errors_are_exceptions(self):
        with self.assertRaises(self.recollect.ConfigurationError) as refused:
            self.train({"training.max_stps": 3})
        self.assertEqual(refused.exception.exit_code, 2)
        self.assertIn("did you mean 'max_steps'?", str(refused.exception))
        self.assertFalse(str(refused.exception).startswith("recollect: "))
        with self.assertRaises(self.recollect.DeviceMemoryError) as too_much:
            list(self.train({"device.memory_limit": "10KiB"}))
        self.assertEqual(too_much.exception.exit_code, 4)
        self.assertIn("device.memory_limit", too_much.exception.message)
        with self.assertRaises(self.recollect.InputError):
            self.recollect.load(self.folder)
        with self.assertRaises(self.recollect.StorageError):
            self.train({"output_dir": "/proc/none"}).wait()

    def test_errors_begin_with_the_error(self):
        for said, message in (("recollect: a warning\nrecollect: step 2: loss nan\n  a hint\n", "step 2: loss nan\n  a hint"),
                              ("recollect: a warning\nrecollect: rank 1: no room\nrecollect: rank 0: peer lost\n",
                               "rank 1: no room\nrecollect: rank 0: peer lost"),
                              ("c.yaml:1:1: wrong\n", "c.yaml:1:1: wrong"), ("", "recollect ended with exit code 7")):
            self.assertEqual(self.recollect._program.error_of(7, said).message, message)

    def test_errors_name_the_mapping(self):
        for change, where in (({"training": {"max_stps": 3}}, "training.max_stps: unknown key"),
                              ({"data": {"format": "jsonl", "path": "none.jsonl", "sequence_length": 8}},
                               "data.path: there is no file or folder none.jsonl"),
                              ({"logging": {"report_to": ["jsonl", "wandb"]}}, "logging.report_to"),
                              ({"lots": 1}, "lots: unknown key 'lots'")):
            with self.assertRaises(self.recollect.RecollectError) as refused:
                self.recollect.train({**CONFIG, **change}).wait()
            self.assertTrue(str(refused.exception).startswith(where), str(refused.exception))
            self.assertNotIn("/proc/", str(refused.exception))

    def test_a_cell_is_run_twice(self):
        self.assertEqual(len(self.train().wait().steps), 4)
        self.assertEqual(len(self.train({"training.max_steps": 3}).wait().steps), 3)
        self.assertEqual(len(self.recollect.load(self.folder / "out/earlier/1").steps), 4)
        interrupted = self.train({"training.max_steps": 10 ** 6})
        self.assertEqual(next(interrupted).step, 1)
        self.assertEqual(len(self.train().wait().steps), 4)
        self.assertIsNotNone(interrupted._process.poll())

    def test_generates_and_predicts(self):
        self.assertEqual(self.recollect.__version__, output_of(self.recollect.program(), "--version").split()[1].rstrip(","))
        run = self.train({"model.vocab_size": 256, "checkpoint.save_model": True}).wait()
        same = {"tokenizer": "bytes", "max_new_tokens": 20}
        two = self.recollect.generate(run, ["ab", "c\nd"], **same)
        self.assertEqual([(one.prompt, len(one.ids)) for one in two], [("ab", 20), ("c\nd", 20)])
        self.assertEqual(self.recollect.generate(run.model, "ab", **same)[0].text, two[0].text)
        self.assertEqual([one.ids for one in self.recollect.generate(run, ["ab", "x"], **same)][0], two[0].ids)
        with self.assertRaises(self.recollect.InputError):
            self.recollect.generate(run, "ab", crop=False, **same)
        rows = [{"text": "a b", "label": "no"}, {"text": "b a a", "label": "yes"}]
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
        (self.folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
        bert = {"task": "sequence_classification",
                "model": {"type": "bert", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                          "intermediate_size": 12, "max_position_embeddings": 8},
                "data": {"format": "jsonl", "path": self.folder / "rows.jsonl", "tokenizer": self.folder / "vocab.txt",
                         "columns": {"text": "text", "label": "label"}}, "training": {"max_steps": 1},
                "checkpoint": {"save_model": True}, "output_dir": self.folder / "bert"}
        trained = self.recollect.train(bert).wait()
        said = self.recollect.predict(bert, [{"id": 7, "text": "a b"}, {"id": "8", "text": "b a a"}])
        self.assertEqual([one["id"] for one in said], [7, "8"])
        self.assertAlmostEqual(sum(said[1]["probabilities"]), 1)
        plain = self.recollect.predict(trained, self.folder / "rows.jsonl")
        self.assertEqual([one["probabilities"] for one in plain], [one["probabilities"] for one in said])

    def test_stops_with_its_state_saved(self):
        endless = {"training.max_steps": 10 ** 6, "snapshot.every_steps": 10 ** 5}
        training = self.train(endless)
        step = next(training).step
        self.assertEqual(step, 1)
        training.stop()
        with self.assertRaises(self.recollect.Preempted) as preempted:
            for last in training:
                step = last.step
        self.assertEqual(preempted.exception.exit_code, 75)
        with self.train(endless) as resumed:
            self.assertEqual(next(resumed).step, step + 1)
        with self.assertRaises(self.recollect.RecollectError):
            next(resumed)

    def test_no_process_is_left(self):
        training = self.train({"training.max_steps": 10 ** 6})
        process = training._process
        self.assertEqual(next(training).step, 1)
        del training
        self.assertIsNotNone(process.poll())
        self.assertEqual([thread for thread in threading.enumerate() if thread is not threading.main_thread()], [])


class Wheel(unittest.TestCase):
    """The platform is what the program needs, and no more."""

    def setUp(self):
        spec = importlib.util.spec_from_file_location("build", BUILD)
        self.build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.build)

    def test_of_libraries_of_this_machine_is_for_machines_like_it(self):
        machine = os.uname().machine
        self.assertEqual(self.build.platform_of(pathlib.Path(sys.argv[1])), f"linux_{machine}")

    @unittest.skipIf(len(sys.argv) < 3, "no portable program is built here")
    def test_with_cuda_offers_what_the_program_opens(self):
        self.assertNotIn("nvidia", self.build.metadata_of("1.0", has_cuda=False))
        lines = self.build.metadata_of("1.0", has_cuda=True).splitlines()
        self.assertIn("Provides-Extra: cuda", lines)
        wanted = [line for line in lines if line.startswith("Requires-Dist: ")]
        self.assertEqual(len(wanted), 4)
        self.assertTrue(all(line.endswith('; extra == "cuda"') for line in wanted), wanted)
        sources = "".join((SOURCE / "engine/nvidia" / name).read_text() for name in ("library.cpp", "library.h"))
        for library, package in (("Cudnn", "cudnn-cu13"), ("Nccl", "nccl-cu13")):
            oldest = int(re.search(rf"kOldest{library} = (\d+)", sources)[1])
            self.assertTrue(any(f"nvidia-{package}>={oldest // 10000}.{oldest // 100 % 100}," in line for line in wanted))

    def test_of_an_old_c_library_alone_is_for_all_that_have_it(self):
        tag = self.build.platform_of(pathlib.Path(sys.argv[2]))
        self.assertRegex(tag, r"^manylinux_2_(1[7-9]|2\d|30|31)_x86_64$")


def install(folder):
    """The fresh environment's Python."""
    wheel = pathlib.Path(output_of(sys.executable, BUILD, sys.argv[1], folder / "dist").strip())
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
    output_of(sys.executable, "-m", "venv", "--without-pip", folder / "environment")
    python = folder / "environment/bin/python"
    output_of(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--no-index",
              "--no-deps", wheel)
    return python


def run_inside(python):
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    environment["OMP_WAIT_POLICY"] = "passive"  # nobody looks for other processes then, and warns of them
    environment["XDG_CACHE_HOME"] = "/dev/null"  # nobody measures the machine
    return subprocess.run([python, __file__, *sys.argv[1:]], env={**environment, INSIDE: "1"}).returncode


def main():
    if os.environ.get(INSIDE):
        unittest.main(argv=sys.argv[:1], defaultTest="Installed")
    if not all(importlib.util.find_spec(module) for module in ("pip", "venv")) or not shutil.which("strip"):
        print("this Python has no pip or no venv, or there are no binutils")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        failed = run_inside(install(pathlib.Path(folder)))
    return failed or not unittest.main(argv=sys.argv[:1], defaultTest="Wheel", exit=False).result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
