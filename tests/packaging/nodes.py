#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of packaging/examples/nodes for Kubernetes and Nomad, as far as that can be known without these: both are
well-formed and hold together, codeboxd takes its arguments, and HAProxy the configuration. tests/http/nodes.py runs HAProxy."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))
import common  # noqa: E402

common.enter_venv("examples")

import hcl2  # noqa: E402
import yaml  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))
from cbxtest import Box  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "packaging/examples/nodes"
DAEMON = os.environ.get("CODEBOX_DAEMON") or "codeboxd"
tap = common.Tap()
box = Box()


def strict(loader, node):
    """A key that is there twice is a mistake that YAML's readers keep to themselves."""
    keys = [key.value for key, _ in node.value]
    assert len(keys) == len(set(keys)), (keys, node.start_mark)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


class Strict(yaml.SafeLoader):
    pass


Strict.add_constructor("tag:yaml.org,2002:map", strict)


def takes(args, node):
    """codeboxd reads its options in order, and at --help all before it are good."""
    r = subprocess.run([DAEMON, *args, "--help"], env={**box.env, "CODEBOX_NODE": node}, capture_output=True, text=True,
                       timeout=common.PATIENCE)
    return r.returncode == 0 and "--agent" in r.stdout or r.stderr


def option(args, name):
    return [a.partition("=")[2] for a in args if a.startswith(name + "=")]


def kubernetes():
    text = (EXAMPLES / "kubernetes.yaml").read_text()
    things = {(t["kind"], t["metadata"]["name"]): t for t in yaml.load_all(text, Strict)}
    apis = {"Namespace": "v1", "Service": "v1", "StatefulSet": "apps/v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1"}
    tap.equal({kind: t["apiVersion"] for (kind, _), t in things.items()}, apis, "kinds and their versions")
    tap.equal({t["metadata"].get("namespace") for (kind, _), t in things.items() if kind != "Namespace"}, {"codebox"},
              "one namespace")
    stateful, service = things["StatefulSet", "codeboxd"]["spec"], things["Service", "codeboxd"]["spec"]
    tap.equal((stateful["serviceName"], service["clusterIP"], service["publishNotReadyAddresses"]), ("codeboxd", "None", True),
              "the service of the set is headless, and has machines that drain")
    for kind, name in ("StatefulSet", "codeboxd"), ("Deployment", "haproxy"):
        spec = things[kind, name]["spec"]
        pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
        tap.equal(spec["selector"]["matchLabels"], labels, f"{name}: the pods are its own")
        tap.equal({m["name"] for c in pod["containers"] for m in c["volumeMounts"]}, {v["name"] for v in pod["volumes"]},
                  f"{name}: volumes")
    tap.equal((service["selector"], things["Service", "box"]["spec"]["selector"],
               things["PodDisruptionBudget", "codeboxd"]["spec"]["selector"]["matchLabels"]),
              ({"app": "codeboxd"}, {"app": "haproxy"}, {"app": "codeboxd"}), "services and what they select")
    container = stateful["template"]["spec"]["containers"][0]
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    tap.equal({p["name"]: p["port"] for p in service["ports"]}, ports, "ports of the service")
    tap.equal((option(container["args"], "--http"), option(container["args"], "--agent")),
              ([f"0.0.0.0:{ports['https']}"], [f"0.0.0.0:{ports['agent']}"]), "and of codeboxd")
    tap.equal(takes(container["args"], "codeboxd-0"), True, "codeboxd takes its arguments, and a pod's name")
    mounts = [m["mountPath"] for m in container["volumeMounts"]]
    files = [f for name in ("--http-certificate", "--http-key", "--tenants") for f in option(container["args"], name)]
    tap.ok(len(files) == 3 and all(os.path.dirname(f) in mounts for f in files), "files are where a volume is", files)
    tap.equal(container["env"], [{"name": "CODEBOX_NODE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
              "the node is the pod")
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    tap.equal(command, ["/usr/bin/codebox", "stop", "--drain"], "it drains before its end")
    help_text = subprocess.run([common.CODEBOX, *command[1:2], "--help"], capture_output=True, text=True).stdout
    tap.ok("--drain" in help_text, "as codebox stop does", help_text)
    probes = [container[p]["httpGet"]["path"] for p in ("readinessProbe", "livenessProbe")]
    tap.equal(probes, ["/ready", "/health"], "a machine that drains is alive, and not ready")
    return re.findall(r"^#\+(.*\n)", text, re.M), stateful


def haproxy(lines, stateful):
    """haproxy.cfg, with the lines that the comment of kubernetes.yaml has for it."""
    text, n = re.subn(r"(\tserver .*\n)+", lambda _: "".join(lines), (EXAMPLES / "haproxy.cfg").read_text())
    names = re.findall(r"^\tserver (\S+) (\S+):8443 ", text, re.M)
    want = [(f"codeboxd-{i}", f"codeboxd-{i}.codeboxd") for i in range(stateful["replicas"])]
    tap.equal((n, names), (1, want), "a server for each pod, with its name")
    pem, both = os.path.join(box.dir, "nodes.pem"), os.path.join(box.dir, "both.pem")
    r = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                        "2", "-subj", "/CN=nodes", "-keyout", both, "-out", pem], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    with open(both, "a") as f:
        f.write(Path(pem).read_text())
    for old, new in ("/etc/haproxy/box.example.org.pem", both), ("/etc/haproxy/nodes.pem", pem):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = Path(box.dir) / "haproxy.cfg"
    path.write_text(text)
    r = subprocess.run(["haproxy", "-c", "-f", str(path)], capture_output=True, text=True, timeout=common.PATIENCE)
    tap.equal(r.returncode, 0, "HAProxy takes it: " + (r.stdout + r.stderr).replace("\n", " ")[:500])


def plain(value):
    """Texts as Nomad reads them, whichever way the parser has quoted them."""
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items() if not k.startswith("__")}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value[1:-1] if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"' else value


def one(value):
    """A block that is there once."""
    assert isinstance(value, list) and len(value) == 1, value
    return value[0]


def nomad():
    with open(EXAMPLES / "codeboxd.nomad.hcl") as f:
        job = one(plain(hcl2.load(f))["job"])["codeboxd"]
    task = one(one(job["group"])["codeboxd"]["task"])["codeboxd"]
    ports = {name: p["static"] for block in one(one(job["group"])["codeboxd"]["network"])["port"] for name, p in block.items()}
    config, node = one(task["config"]), one(job["constraint"])["attribute"]
    tap.equal((job["type"], task["driver"], config["command"]), ("system", "raw_exec", "/usr/sbin/codeboxd"), "a task for each client")
    tap.equal((task["kill_signal"], task["kill_timeout"]), ("SIGUSR1", "24h"), "it drains at its end")
    env = task["env"] if isinstance(task["env"], dict) else one(task["env"])
    tap.equal((env, node), ({"CODEBOX_NODE": node}, "${meta.codebox_node}"), "the node is the client's")
    args = [re.sub(r"\$\{NOMAD_IP_(https|agent)\}", "192.0.2.11", a) for a in config["args"]]
    tap.equal((option(args, "--http"), option(args, "--agent")),
              ([f"192.0.2.11:{ports['https']}"], [f"192.0.2.11:{ports['agent']}"]), "ports")
    tap.equal(takes(args, "a"), True, "codeboxd takes its arguments")


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin"
    missing = [p for p in ("haproxy", "openssl") if not shutil.which(p)]
    if missing:
        common.skip_all(f"there is no {', '.join(missing)}")
    tap.run("Kubernetes", lambda: haproxy(*kubernetes()))
    tap.run("Nomad", nomad)
    tap.done()
