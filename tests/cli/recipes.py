#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The recipes that come with codebox: each can be read and says what it is, those with wheels have a lock, and the images
full and python-science, where they are in the store, do what they are for."""
import glob
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from cbxtest import Box, Skip, run  # noqa: E402

RECIPES = os.path.join(HERE, "..", "..", "rootfs")
TARGETS = [f"{python}-{machine}" for python in ("3.11", "3.12", "3.13") for machine in ("x86_64", "aarch64")]
FULL = """
import subprocess, numpy, pandas, matplotlib.pyplot
files = {"a.c": '#include <stdio.h>\\nint main(void) { puts("c"); }\\n',
         "b.cc": '#include <iostream>\\nint main() { std::cout << "c++" << std::endl; }\\n',
         "m.c": '#include <Python.h>\\nstatic struct PyModuleDef d = { PyModuleDef_HEAD_INIT, "m" };\\n'
                'PyMODINIT_FUNC PyInit_m(void) { return PyModule_Create(&d); }\\n',
         "Makefile": "all: a b\\n"}
for name, text in files.items():
    with open(name, "w") as f:
        f.write(text)
for command in ["make -s && ./a && ./b", "cc -fsanitize=address -o s a.c && ./s",
                "cc -shared -fPIC $(python3-config --includes) -o m.so m.c && python3 -c 'import m; print(m.__name__)'",
                "git init -q x && git clone -q x y 2>/dev/null && echo git", "sqlite3 :memory: 'select 1 + 1'",
                "node -p '1 + 2'", "/usr/bin/npm --version | cut -d. -f2 | tr 0-9 n | cut -c1", "vi -es -c q! a.c && echo vi"]:
    r = subprocess.run(command, shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    print(r.stdout.strip().replace(chr(10), " ") or (command, r))
"""
box = Box()


def recipes():
    for path in sorted(glob.glob(os.path.join(RECIPES, "*.json"))):
        with open(path) as f:
            yield path, json.load(f)


def test_each_can_be_read_and_is_known():
    known = box("image", "build", "nonesuch").stderr
    for path, recipe in recipes():
        name = os.path.basename(path)[:-len(".json")]
        assert recipe["name"] == name and recipe["description"] and name in known, (path, known)
        if not recipe.get("wheels"):  # it is read as a whole first
            r = box("image", "lock", name)
            assert r.returncode == 1 and "has no \"wheels\"" in r.stderr, r


def test_locks_are_for_what_the_recipes_ask_for():
    for path, recipe in recipes():
        lock = path[:-len(".json")] + ".lock"
        assert os.path.exists(lock) == bool(recipe.get("wheels")), path
        if not recipe.get("wheels"):
            continue
        with open(lock) as f:
            lock = json.load(f)
        assert lock["requirements"] == recipe["wheels"] and lock["targets"] == TARGETS, path


def test_python_debian_is_what_python_was():
    own = dict(recipes())
    debian, full = (own[os.path.join(RECIPES, name + ".json")] for name in ("python-debian", "full"))
    assert not debian.get("wheels") and set(debian["packages"]) < set(full["packages"])
    assert debian["preload"] == full["preload"] and set(debian["links"]) < set(full["links"])


SCIENCE = """
import importlib, os, subprocess, sys
for name in "numpy scipy.stats sklearn.linear_model statsmodels.api seaborn plotly.express polars pyarrow.dataset duckdb " \\
            "openpyxl docx pptx pypdf reportlab.pdfgen.canvas PIL.Image requests httpx bs4 lxml.etree sympy networkx nltk " \\
            "faker cryptography.fernet rsa skimage.io cv2 flask folium geopandas shapely wordcloud gensim textblob librosa " \\
            "soundfile natsort prettytable holidays Levenshtein xlrd pyfakefs pytest regex psutil tabulate yaml pytz".split():
    importlib.import_module(name)
import pandas, geopandas, matplotlib.pyplot as plt
from shapely.geometry import Point
frame = pandas.DataFrame({"a": [1, 2]})
frame.to_parquet("a.parquet")
print(importlib.import_module("duckdb").sql("select sum(a) from frame").fetchall(), pandas.read_parquet("a.parquet").shape)
geopandas.GeoDataFrame(geometry=[Point(0, 0)], crs=4326).to_crs(3857).to_file("a.gpkg")
print(geopandas.read_file("a.gpkg").crs.to_epsg(), plt.rcParams["font.family"][1])
twice = sorted({n.partition("-")[0].lower() for n in os.listdir("/usr/lib/python3/dist-packages")} &
               {n.partition("-")[0].lower() for n in os.listdir(os.path.dirname(os.path.dirname(pandas.__file__)))} - {"__pycache__"})
print(twice)
# Whatever is warm is forked, which only OpenBLAS's threads survive.
code = "import os, pandas, matplotlib.pyplot; print(len(os.listdir('/proc/self/task')))"
print(subprocess.run([sys.executable, "-c", code], env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, capture_output=True,
                     text=True).stdout)
"""


def test_python_science():
    if "python-science" not in box.images():
        raise Skip("the image python-science is not in the store; codebox image build python-science")
    r = box("run", "--image", "python-science", "--timeout", "5m", "-c", SCIENCE)
    assert r.stdout.splitlines()[:4] == ["[(3,)] (2, 1)", "3857 WenQuanYi Micro Hei", "[]", "1"], r


def test_full():
    if "full" not in box.images():
        raise Skip("the image full is not in the store; codebox image build full")
    r = box("run", "--image", "full", "--session", "f", "-c", FULL)
    assert r.stdout.splitlines() == ["c c++", "c", "m", "git", "2", "3", "n", "vi"], r
    r = box("run", "--session", "f", "-l", "javascript", "-c", "[1, 2].map(x => 2 * x)")
    assert r.stdout == "[ 2, 4 ]\n", r
    r = box("run", "--session", "f", "-l", "bash", "-c", "gcc -dumpmachine")
    assert os.uname().machine in r.stdout, r


if __name__ == "__main__":
    run(globals())
