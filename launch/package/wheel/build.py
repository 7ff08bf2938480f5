#!/usr/bin/env python3
"""Makes a wheel of a program and the Python module beside this file: build.py PROGRAM FOLDER. It prints the wheel's path.

A program that needs nothing but an old C library is for every Linux that has one of that age (manylinux, by the newest version
that it asks for); one that needs further libraries, as in the presets that are not portable, is for machines like this one.
Python's own library is all that this needs, with binutils' readelf and strip."""
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
OF_THE_C_LIBRARY = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
# What a program with the CUDA backend opens (engine/nvidia/library.cpp), and cuDNN's engines that are compiled where they run.
OF_CUDA = ["nvidia-cublas>=13,<14", "nvidia-cuda-nvrtc>=13,<14", "nvidia-cudnn-cu13>=9.16,<10", "nvidia-nccl-cu13>=2.28,<3"]
OLDEST_GLIBC = (2, 17)  # pip of any age knows it
EXECUTABLE, READABLE = 0o755, 0o644


def output_of(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def platform_of(program):
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-W", "-d", program)))
    machine = platform.machine()
    if further := sorted(needed - OF_THE_C_LIBRARY):
        print(f"for machines like this one: the program needs {', '.join(further)}", file=sys.stderr)
        return f"linux_{machine}"
    found = re.findall(r"\bGLIBC_(\d+)\.(\d+)", output_of("readelf", "-W", "-V", program))
    newest = max([OLDEST_GLIBC, *((int(major), int(minor)) for major, minor in found)])
    return f"manylinux_{newest[0]}_{newest[1]}_{machine}"


def metadata_of(version, has_cuda):
    extra = "Provides-Extra: cuda\n" if has_cuda else ""
    extra += "".join(f'Requires-Dist: {package}; extra == "cuda"\n' for package in OF_CUDA if has_cuda)
    return f"""Metadata-Version: 2.1
Name: recollect
Version: {version}
Summary: training of transformers whose activations do not fit in memory
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
{extra}Description-Content-Type: text/plain

The program `recollect`, and a module that runs it and reads what it writes: recollect.estimate, recollect.train,
recollect.load. `python -m recollect` and the script `recollect` are the program itself.
"""


def files_of(program, version, tag, has_cuda):
    """(name in the wheel, content, mode), but for RECORD."""
    info = f"recollect-{version}.dist-info"
    for path in sorted((HERE / "recollect").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            yield f"recollect/{path.name}", path.read_bytes(), READABLE
    yield "recollect/bin/recollect", program.read_bytes(), EXECUTABLE
    yield f"{info}/METADATA", metadata_of(version, has_cuda).encode(), READABLE
    wheel = f"Wheel-Version: 1.0\nGenerator: recollect\nRoot-Is-Purelib: false\nTag: {tag}\n"
    yield f"{info}/WHEEL", wheel.encode(), READABLE
    yield f"{info}/entry_points.txt", b"[console_scripts]\nrecollect = recollect.__main__:main\n", READABLE
    yield f"{info}/licenses/LICENSE", (HERE.parents[2] / "LICENSE").read_bytes(), READABLE


def add(archive, name, content, mode):
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # the same bytes of the same program
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def build(program, folder):
    about = output_of(program, "--version")
    version = about.split()[1].rstrip(",")
    has_cuda = re.search(r"^backends.*\bcuda\b", about, re.M) is not None
    tag = f"py3-none-{platform_of(program)}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"recollect-{version}-{tag}.whl"
    with tempfile.TemporaryDirectory() as temporary:
        stripped = pathlib.Path(temporary) / "recollect"
        shutil.copyfile(program, stripped)
        subprocess.run(["strip", stripped], check=True)
        record = ""
        made = pathlib.Path(temporary) / path.name
        with zipfile.ZipFile(made, "w") as archive:
            for name, content, mode in files_of(stripped, version, tag, has_cuda):
                add(archive, name, content, mode)
                record += record_line(name, content)
            name = f"recollect-{version}.dist-info/RECORD"
            add(archive, name, f"{record}{name},,\n".encode(), READABLE)
        shutil.copyfile(made, path.with_suffix(".tmp"))
        os.replace(path.with_suffix(".tmp"), path)
    return path


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(build(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])))


if __name__ == "__main__":
    main()
