#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the fuzz targets with clang and run them.

    fuzz.py [--build DIR] [--seconds N | --runs N] [TARGET...]

With --seconds each target runs so long, one after another, and its corpus stays in DIR/corpus/TARGET. An input that
breaks something is kept in DIR/found. The exit status is 1 when there was one.
"""
import argparse
import concurrent.futures
import glob
import os
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
TARGETS = {"fuzz_json": ["fuzz_json.c"], "fuzz_rpc": ["fuzz_rpc.c", "../unit/fake_engine.c", "../unit/fake_files.c"],
           "fuzz_frame": ["fuzz_frame.c"],
           "fuzz_policy": ["fuzz_policy.c"], "fuzz_cgroup": ["fuzz_cgroup.c"], "fuzz_http": ["fuzz_http.c"],
           "fuzz_unpack": ["fuzz_unpack.c"], "fuzz_init": ["fuzz_init.c"]}
SANITIZE = "address,undefined"
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-g", "-O1", "-fno-omit-frame-pointer", "-DFAKE_BYTES_MAX=300000", "-Wall",
         "-Wextra",
         "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-fno-sanitize-recover=undefined",
         '-DPACKAGE_VERSION="0"', '-DCBX_LIBEXEC_DIR=""', '-DCBX_SHARE_DIR=""', '-DCBX_SBIN_DIR=""',
         '-DCBX_APPARMOR_PROFILE=""']
LIBRARIES = ["libcjson", "libevent_core", "libarchive", "nettle"]
# What the targets use of the library; the linker takes from it what is needed.
PARTS = ["base", "cgroup", "http", "image", "mcp", "policy", "session"]


class Missing(Exception):
    """The tools to build the targets are not there."""


def pkg(what):
    r = subprocess.run(["pkg-config", what] + LIBRARIES, capture_output=True, text=True)
    if r.returncode:
        raise Missing("pkg-config: " + r.stderr.strip().replace("\n", " "))
    return r.stdout.split()


def check_clang(build):
    if not shutil.which("clang"):
        raise Missing("there is no clang")
    probe = os.path.join(build, "probe.c")
    with open(probe, "w") as f:
        f.write("int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n);\n"
                "int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n) { return 0; }\n")
    r = subprocess.run(["clang", "-fsanitize=fuzzer," + SANITIZE, probe, "-o", probe + ".out"], capture_output=True)
    if r.returncode:
        raise Missing("this clang has no libFuzzer")


def compile_one(source, obj, flags):
    headers = glob.glob(TOP + "/src/*/*.h") + glob.glob(TOP + "/tests/*/*.h")
    newest = max(os.path.getmtime(p) for p in [source] + headers)
    if not os.path.exists(obj) or os.path.getmtime(obj) < newest:
        subprocess.run(["clang"] + flags + ["-fsanitize=fuzzer-no-link," + SANITIZE, "-c", source, "-o", obj],
                       check=True)
    return obj


def build_targets(build, names):
    """Raises Missing, or subprocess.CalledProcessError after the compiler has said why."""
    os.makedirs(build, exist_ok=True)
    check_clang(build)
    flags = FLAGS + ["-I" + TOP + "/src", "-I" + TOP + "/tests/unit", "-I" + HERE] + pkg("--cflags")
    sources = sorted(s for part in PARTS for s in glob.glob("%s/src/%s/*.c" % (TOP, part)))
    sources.append(TOP + "/src/sandbox/plan.c")  # what mounts are refused
    own = {name: [os.path.normpath(os.path.join(HERE, s)) for s in TARGETS[name]] for name in names}
    jobs = {s: os.path.join(build, os.path.relpath(s, TOP).replace("/", "-")[:-2] + ".o")
            for s in sources + sum(own.values(), [])}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda s: compile_one(s, jobs[s], flags), jobs))
    library = os.path.join(build, "library.a")
    if os.path.exists(library):
        os.unlink(library)
    subprocess.run(["ar", "rcs", library] + [jobs[s] for s in sources], check=True)
    for name in names:
        subprocess.run(["clang", "-fsanitize=fuzzer," + SANITIZE, "-o", os.path.join(build, name)] +
                       [jobs[s] for s in own[name]] + [library] + pkg("--libs") + ["-lm"], check=True)


def seeds_json():
    ids = ["0", "-1", '"a"', "9007199254740993", "1.50", "null", '"\\u00e9\\ud83d\\ude00"', '"\u00e9\U0001f600"',
           "1e400", "[]", "{}"]
    yield from ('{"jsonrpc":"2.0","id":%s,"method":"ping"}' % i for i in ids)
    yield from ("", " null ", "[1,2.5e-3,[[]],{}]", '{"a":1,"a":2}', '{"a":"\\u0000"}', '["\\ud800","\\n\\t\\/\\\\"]',
                "[" * 70,
                '{"n":7,"s":"x","b":true,"o":{"id":3},"a":[1]}', '{"n":-1,"s":1,"b":0,"o":[],"a":{}}', '{"n":1e99}',
                "0.1e")
    yield b'{"id":"\xff\xfe","x":"\xed\xa0\x80\xc0\x80"}'


def request(number, method, params=""):
    return '{"jsonrpc":"2.0","id":%s,"method":"%s"%s}' % (number, method, ',"params":' + params if params else "")


def call(number, tool, args, more=""):
    return request(number, "tools/call", '{"name":"%s","arguments":%s%s}' % (tool, args, more))


def seeds_rpc():
    def opening(version):
        return [request(0, "initialize",
                        '{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"t","version":"1"}}'
                        % version), '{"jsonrpc":"2.0","method":"notifications/initialized"}']

    def run(number, code, more=""):
        return call(number, "run_code", '{"code":"%s"}' % code, more)

    cancel = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}'
    about = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",' \
            '"io.modelcontextprotocol/clientCapabilities":%s}'
    tasks = about % '{"extensions":{"io.modelcontextprotocol/tasks":{}}}'
    about %= "{}"
    for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1"):
        yield "\n".join(opening(version) + [request(1, "tools/list"), request('"x"', "ping"),
                                            run(2, "print hi\\nvalue 5"),
                                            run(3, "raise"), run(4, "show image/png 3000\\nerror e")])
        yield "\n".join(opening(version) + ["[" + ",".join([run(1, "print a"), run(2, "die"), request(3, "ping"),
                                                            cancel, "7"]) +
                                            "]", "[]"])
    start = opening("2025-06-18")
    yield "\n".join(start + [run(5, "print a\\nwait", ',"_meta":{"progressToken":"p"}'), cancel, run(6, "time")])
    yield "\n".join(start + [run(5, "wait"), "", run(5, "wait"), "",
                             run(7, "fill 250000 x\\nraw a\\\\r\\\\xff\\\\e[1m")])
    yield "\n".join(start + [call(1, "create_session", '{"session_id":"s","memory":"512M","timeout":"5m"}'),
                             call(2, "list_sessions", "{}"), call(3, "run_code", '{"code":"value 1","session_id":"s"}'),
                             call(4, "close_session", '{"session_id":"s"}'),
                             call(5, "run_code", '{"code":"","session_id":"s"}')])
    yield "\n".join([request(1, "server/discover", "{%s}" % about),
                     call(2, "run_code", '{"code":"print 1"}', "," + about),
                     request(3, "resources/list", "{%s}" % about),
                     request(4, "prompts/list", '{"cursor":"x",%s}' % about),
                     request(5, "tools/list", "{%s}" % about), request(6, "resources/templates/list", "{%s}" % about)])
    yield "\n".join([request('"l"', "subscriptions/listen",
                             '{"notifications":{"resourcesListChanged":true,"resourceSubscriptions":'
                             '["codebox://sessions/s"]},%s}' % about),
                     call(2, "create_session", '{"session_id":"s"}', "," + about),
                     call(3, "run_code", '{"code":"wait","session_id":"s"}', "," + tasks),
                     request(4, "tasks/get", '{"taskId":"1",%s}' % tasks),
                     call(5, "close_session", '{"session_id":"s"}', "," + about), cancel])
    yield "\n".join(start + [call(1, "create_session", '{"session_id":"s"}'),
                             call(2, "write_file", '{"session_id":"s","path":"d/a.txt","content":"YQ==",'
                                                   '"encoding":"base64"}'),
                             call(3, "read_file", '{"session_id":"s","path":"d/a.txt","offset":0,"length":9}'),
                             call(4, "list_files", '{"session_id":"s","path":"..","recursive":true,"offset":1}'),
                             call(5, "upload_file", '{"session_id":"s","filename":"b","content_base64":"YWI="}'),
                             request(6, "resources/read", '{"uri":"codebox://sessions/s/files/d/a.txt"}'),
                             request(7, "resources/list"),
                             request(8, "resources/subscribe", '{"uri":"codebox://sessions/s"}'),
                             request(9, "resources/templates/list")])
    yield "\n".join(start + [call(1, "run_code", '{"code":"print a\\nwait","background":true}'),
                             call(2, "get_execution", '{"execution_id":1,"wait":1}'),
                             call(3, "get_execution", '{"execution_id":1,"output_from":0}'),
                             call(4, "interrupt", '{"execution_id":1}'),
                             call(5, "session_info", '{"session_id":"fake-1"}'),
                             call(6, "get_execution", '{"execution_id":9}')])
    yield "\n".join(start + [request(1, "prompts/list"),
                             request(2, "prompts/get", '{"name":"analyse_data","arguments":{"path":"a"}}'),
                             request(3, "completion/complete",
                                     '{"ref":{"type":"ref/resource","uri":"codebox://sessions/{session_id}"},'
                                     '"argument":{"name":"session_id","value":"f"},"context":{"arguments":{"a":"b"}}}'),
                             request(4, "logging/setLevel", '{"level":"debug"}')])
    yield "{\n[]\n{}\n[1]\n" + request("1.5", "ping") + "\n" + request("[]", "ping") + \
        '\n{"jsonrpc":"1.0","id":1,"method":"ping"}'
    yield '{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","id":1,"method":"ping","method":"\\u0000"}'


def seeds_frame():
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    frames = ['{"ev":"ready","language":"python","version":"3.11","kind":"ipython"}',
              '{"ev":"display","id":2,"data":{"text/plain":"<Figure>","image/png":"%s"},"metadata":{"a":1}}' % png,
              '{"ev":"result","id":2,"count":1,"data":{"text/plain":"5","application/json":[1,{"x":null}]},'
              '"metadata":{}}',
              '{"ev":"error","id":2,"name":"ValueError","value":"bad","traceback":"Traceback\\n\u00e9"}',
              '{"ev":"clear","id":2,"wait":true}', '{"ev":"is_complete","id":1,"status":"complete","indent":""}',
              '{"ev":"complete","id":2,"matches":["a"],"start":0,"end":1}', '{"ev":"display","id":1,"data":{}}',
              '{"ev":"done","id":2,"status":"ok","count":1,"exit_code":3}']
    yield b"\0" + "\n".join(frames).encode()
    yield b"\1" + b"".join(struct.pack("<I", len(f.encode())) + f.encode() for f in frames)
    yield b"\xf1" + b"".join(struct.pack("<I", len(f.encode())) + f.encode() for f in frames)
    for f in frames:
        yield b"\2" + f.encode()
        yield b"\x0e" + f.encode()
    yield b"\3\xff\xff\xff\xff"
    yield b"\2" + b'{"ev":"error","id":2,"name":"E","value":"' + b"\xc3\xa9" * 5000 + b'","traceback":"t"}'


def seeds_policy():
    for path in sorted(glob.glob(TOP + "/policies/*.json") + glob.glob(TOP + "/policies/examples/*.json")):
        with open(path, "rb") as f:
            yield f.read()
    yield '{"include": ["a.json"], "limits": {"memory": "512M"}}'
    yield '// a comment\n{"limits": {"memory": "1G", "timeout": "30s", "processes": 12,},}'
    yield "{" + '"environment": {"A": "b"}, ' * 3 + '"x": ' + "[" * 70


def seeds_cgroup():
    yield "0::/user.slice/user-1000.slice/session-3.scope\n"
    yield "12:memory:/a\n1:name=systemd:/\n0::/\n"
    yield "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    yield "25 1 0:22 /user.slice /sys/fs/cgroup\\040x rw - cgroup2 none rw\n26 25 0:23 / / rw - tmpfs tmpfs rw\n"
    yield "usage_usec 123\nuser_usec 1\noom_kill 18446744073709551616\n"
    yield "cpu io memory pids\n"
    yield "8:0 rbytes=1 wbytes=2 rios=3 wios=4\n8:16 rbytes=18446744073709551615 wbytes=x\n"
    yield "max\n"


def seeds_http():
    yield from ("localhost:8080", "127.0.0.1", "[::1]:1", "http://localhost", "https://[::1]:443",
                "http://localhost.evil",
                "http://127.0.0.1@evil", "Bearer 0123456789abcdef", "bearer x", "localhost:0", "[::1]:65536",
                "127.0.0.1:")


def seeds_unpack():
    import io
    import tarfile

    def tar(*members, mode="w"):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=mode, format=tarfile.GNU_FORMAT) as t:
            for name, kind, extra in members:
                m = tarfile.TarInfo(name)
                m.type, m.mode = kind, 0o4755
                if kind == tarfile.REGTYPE:
                    m.size = len(extra)
                    t.addfile(m, io.BytesIO(extra))
                else:
                    m.linkname = extra
                    t.addfile(m)
        return out.getvalue()

    reg, sym, lnk, dev, dirs = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE
    rows = [[("a", dirs, ""), ("a/b", reg, b"text"), ("c", sym, "a/b"), ("d", lnk, "a/b")],
            [("l", sym, "../.."), ("l/secret", reg, b"x")], [("../secret", reg, b"x")], [("/etc/x", reg, b"x")],
            [("d", sym, "/dev/shm"), ("d/x", dirs, "")], [("h", lnk, "../secret"), ("n", dev, "")],
            [("a", dirs, ""), ("a/.wh.b", reg, b""), ("a/.wh..wh..opq", reg, b"")],
            [("bin", dirs, ""), ("bin/sh", reg, b"#!")],
            [("x" * 200 + "/" + "y" * 200, reg, b"long")]]
    for row in rows:
        for first in (0, 2, 12, 16):
            yield bytes([first]) + tar(*row)
    yield b"\0" + tar(*rows[0], mode="w:gz")
    yield b"\0" + tar(*rows[1], mode="w:xz")
    data = tar(*rows[0])
    yield b"\1!<arch>\n" + b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (b"data.tar", 0, 0, 0, b"100644", len(data)) + data


def seeds_init():
    def header(kind, number, value=0, arg=0, length=0):
        return struct.pack("=IIqQII", kind, number, value, arg, length, 0)

    def datagram(payload, matching=False):
        return struct.pack("<H", len(payload) | (0x8000 if matching else 0)) + payload

    entry = struct.pack("=IIQqII", 0o100644, 0, 5, 1, 3, 40) + b"abc".ljust(8, b"\0")
    yield datagram(header(1, 0)) + datagram(b"\3abc", True) + datagram(b"\1" + entry,
                                                                       True) + datagram(b"\0" + bytes(24), True)
    yield datagram(header(1, 0)) + datagram(header(3, 0, 9, 2)) + datagram(header(5, 1, 3, 3, 3) + b"abc")
    yield datagram(header(8, 2, 2, 0, len(entry) * 2) + entry * 2)
    yield datagram(b"x") + datagram(header(5, 99))


SEEDS = {"fuzz_json": seeds_json, "fuzz_rpc": seeds_rpc, "fuzz_frame": seeds_frame, "fuzz_policy": seeds_policy,
         "fuzz_cgroup": seeds_cgroup, "fuzz_http": seeds_http, "fuzz_unpack": seeds_unpack, "fuzz_init": seeds_init}


def write_seeds(where, name):
    os.makedirs(where, exist_ok=True)
    for i, seed in enumerate(SEEDS[name]()):
        with open(os.path.join(where, "seed-%02d" % i), "wb") as f:
            f.write(seed if isinstance(seed, bytes) else seed.encode())


def command(build, name, bound, corpus=None):
    """The command line of a run, whose corpus grows in the build directory if nowhere else is said."""
    corpus, found = corpus or os.path.join(build, "corpus", name), os.path.join(build, "found")
    write_seeds(corpus, name)
    os.makedirs(found, exist_ok=True)
    return [os.path.join(build, name), "-artifact_prefix=" + os.path.join(found, name + "-"),
            "-dict=" + HERE + "/words.dict",
            "-max_len=16384", "-timeout=20", "-rss_limit_mb=1024", "-print_final_stats=1", bound, corpus]


def environment():
    return dict(os.environ, ASAN_OPTIONS="detect_leaks=1:quarantine_size_mb=32", UBSAN_OPTIONS="print_stacktrace=1")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default=os.path.join(os.getcwd(), "fuzz-build"))
    p.add_argument("--seconds", type=int)
    p.add_argument("--runs", type=int, default=100000)
    p.add_argument("target", nargs="*", default=sorted(TARGETS))
    a = p.parse_args()
    for name in a.target:
        if name not in TARGETS:
            p.error("%s: the targets are %s" % (name, ", ".join(sorted(TARGETS))))
    try:
        build_targets(a.build, a.target)
    except Missing as e:
        sys.exit("fuzz.py: " + str(e))
    except subprocess.CalledProcessError:
        sys.exit("fuzz.py: the targets do not build")
    bound = "-max_total_time=%d" % a.seconds if a.seconds else "-runs=%d" % a.runs
    bad = [name for name in a.target if subprocess.run(command(a.build, name, bound), env=environment()).returncode]
    for name in bad:
        print("%s: found something; the input is in %s/found" % (name, a.build), file=sys.stderr)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
