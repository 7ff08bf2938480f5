#!/usr/bin/env python3
"""The examples for clusters: Slurm's script is run with stand-ins for its programs, Kubernetes' command line and configuration
are read by the program, Apptainer's definition has only sections that there are. Usage: test_cluster.py PROGRAM."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "examples/cluster"
STAND_INS = {
    "srun": 'printf "%s\\n" "$MASTER_ADDR $MASTER_PORT" "$*" >srun.said\nexit "$STATUS"\n',
    "scontrol": 'echo "$*" >>scontrol.said\nif [ "$1" = show ]; then printf "node7\\nnode8\\n"; fi\n',
}


def program(*words):
    return subprocess.run([sys.argv[1], *map(str, words)], cwd=ROOT, capture_output=True, text=True)


def sections_of(definition):
    """Of an Apptainer definition: the header's fields, and %name -> its lines."""
    header, *parts = re.split(r"(?m)^%", definition)
    fields = dict(line.split(": ", 1) for line in header.splitlines() if line and not line.startswith("#"))
    return fields, {part.split("\n", 1)[0].strip(): part.split("\n", 1)[1] for part in parts}


class Slurm(unittest.TestCase):
    def run_script(self, status, *words):
        """(its exit status, what srun was told, what scontrol was told)"""
        with tempfile.TemporaryDirectory() as folder:
            for name, script in STAND_INS.items():
                path = pathlib.Path(folder) / name
                path.write_text("#!/bin/sh\n" + script)
                path.chmod(0o755)
            done = subprocess.run(
                ["bash", CLUSTER / "slurm.sbatch", *words], cwd=folder, capture_output=True, text=True,
                env={"PATH": f"{folder}:{os.environ['PATH']}", "STATUS": str(status), "SLURM_JOB_ID": "1234567",
                     "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_CPUS_PER_TASK": "2"})
            self.assertEqual(done.stderr, "")
            return (done.returncode, *((pathlib.Path(folder) / f"{name}.said").read_text() for name in STAND_INS))

    def test_trains_on_all_ranks(self):
        status, srun, scontrol = self.run_script(0, "c.yaml", "training.max_steps=5")
        self.assertEqual(status, 0)
        self.assertEqual(srun, "node7 24567\n--cpus-per-task=2 --mpi=none --kill-on-bad-exit=0 "
                               "recollect train c.yaml training.max_steps=5\n")
        self.assertEqual(scontrol, "show hostnames node[7-8]\n")

    def test_is_put_into_the_queue_again_where_it_was_preempted_and_only_there(self):
        status, srun, scontrol = self.run_script(75)
        self.assertEqual(status, 75)
        self.assertIn("train examples/cluster/cluster.yaml\n", srun)
        self.assertIn("\nrequeue 1234567\n", scontrol)
        status, _, scontrol = self.run_script(7)
        self.assertEqual(status, 7)
        self.assertNotIn("requeue", scontrol)

    def test_asks_for_what_it_needs(self):
        asked = dict(re.findall(r"^#SBATCH --([\w-]+)=?(\S*)$", (CLUSTER / "slurm.sbatch").read_text(), re.M))
        self.assertEqual((asked["requeue"], asked["open-mode"], asked["signal"]), ("", "append", "USR1@120"))
        ranks = int(asked["nodes"]) * int(asked["ntasks-per-node"])
        shown = program("config", "show", CLUSTER / "cluster.yaml", "--ranks", ranks)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("data_parallel_size: 4 ", shown.stdout)


class Kubernetes(unittest.TestCase):
    def setUp(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("this Python has no yaml")
        self.config, self.job = yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text())
        self.pod = self.job["spec"]["template"]["spec"]
        self.container, = self.pod["containers"]

    def test_the_program_takes_its_command_line_and_configuration(self):
        args = self.container["args"]
        self.assertTrue(all(isinstance(word, str) for word in args), args)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "train.yaml"
            path.write_text(self.config["data"]["train.yaml"])
            words = [word.replace("/config/", f"{folder}/") for word in args]
            ranks = words[words.index("--nproc-per-node") + 1]
            shown = program("config", "show", path, "--ranks", ranks)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            started = program(*words, "training.max_stps=1")  # refused before a rank is started, for this reason alone
            self.assertEqual(started.returncode, 2, started.stderr)
            self.assertIn("did you mean 'max_steps'?", started.stderr)
            self.assertEqual(started.stderr.count("command line"), 1, started.stderr)

    def test_preempted_is_no_failure_and_there_is_time_to_save(self):
        rules = {tuple(rule["onExitCodes"]["values"]): rule["action"]
                 for rule in self.job["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule}
        self.assertEqual(rules, {(2, 3): "FailJob", (75,): "Ignore"})
        self.assertEqual(self.pod["restartPolicy"], "Never")  # without which Kubernetes takes no such policy
        args = self.container["args"]
        self.assertLess(int(args[args.index("--grace") + 1]), self.pod["terminationGracePeriodSeconds"])

    def test_what_is_mounted_is_there(self):
        self.assertEqual({mount["name"] for mount in self.container["volumeMounts"]},
                         {volume["name"] for volume in self.pod["volumes"]})
        mounted = {mount["mountPath"] for mount in self.container["volumeMounts"]}
        self.assertLessEqual({"/dev/shm", "/config", "/data"}, mounted)
        claimed = [volume["configMap"]["name"] for volume in self.pod["volumes"] if "configMap" in volume]
        self.assertEqual(claimed, [self.config["metadata"]["name"]])
        self.assertEqual((self.job["apiVersion"], self.job["kind"]), ("batch/v1", "Job"))


class Images(unittest.TestCase):
    def test_the_definition_has_sections_that_there_are(self):
        fields, sections = sections_of((CLUSTER / "recollect.def").read_text())
        self.assertEqual(fields, {"Bootstrap": "docker", "From": "debian:12-slim"})
        self.assertLessEqual(set(sections), {"help", "files", "post", "runscript", "test", "environment", "labels"})
        for name in ("post", "runscript", "test"):
            checked = subprocess.run(["bash", "-n"], input=sections[name], text=True, capture_output=True)
            self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn('exec recollect "$@"', sections["runscript"])

    def test_the_definition_does_what_the_dockerfile_does(self):
        definition = (CLUSTER / "recollect.def").read_text()
        self.assertTrue(definition.startswith("Bootstrap: "), "Apptainer wants it first")
        _, sections = sections_of(definition)
        # A folder that is made, since its name ends with a slash; sources are relative to where apptainer is started.
        self.assertEqual(sections["files"].split(), ["build/bundle/recollect_*.deb", "/packages/"])
        docker = (ROOT / "launch/package/Dockerfile").read_text()
        image = docker[docker.rindex("\nFROM "):]
        commands = re.search(r"^RUN ((?:.*\\\n)*.*)$", image, re.M)[1].replace("\\\n", " ").split("&&")
        plain = [" ".join(line.replace("./packages", "/packages").replace("-rf packages", "-rf /packages").split())
                 for line in commands]
        post = [line.strip().replace("DEBIAN_FRONTEND=noninteractive ", "") for line in sections["post"].splitlines()]
        self.assertEqual([line for line in post if line], plain)

    def test_both_images_install_what_build_sh_makes(self):
        for path in (CLUSTER / "recollect.def", ROOT / "launch/package/Dockerfile"):
            self.assertIn("build/bundle/recollect_*.deb", path.read_text(), path)
        docker = (ROOT / "launch/package/Dockerfile").read_text()
        self.assertEqual(json.loads(re.search(r"^ENTRYPOINT (.*)$", docker, re.M)[1]), ["recollect"])
        self.assertEqual(re.findall(r"^(?!#| |[A-Z]+ )\S+", docker, re.M), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
