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
import hashlib
import io
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
TARGETS = {"fuzz_json": ["fuzz_json.c"],
           "fuzz_rpc": ["fuzz_rpc.c"] + ["../unit/fake_%s.c" % s for s in ("absent", "cells", "engine", "files")],
           "fuzz_frame": ["fuzz_frame.c"],
           "fuzz_policy": ["fuzz_policy.c"], "fuzz_runtime": ["fuzz_runtime.c"],
           "fuzz_cgroup": ["fuzz_cgroup.c"], "fuzz_http": ["fuzz_http.c"], "fuzz_proxy": ["fuzz_proxy.c"], "fuzz_jwt": ["fuzz_jwt.c"],
           "fuzz_clean": ["fuzz_clean.c"], "fuzz_tenants": ["fuzz_tenants.c"], "fuzz_rest": ["fuzz_rest.c"], "fuzz_multipart": ["fuzz_multipart.c"],
           "fuzz_tar": ["fuzz_tar.c"], "fuzz_unpack": ["fuzz_unpack.c"], "fuzz_init": ["fuzz_init.c"],
           "fuzz_packages": ["fuzz_packages.c"], "fuzz_osv": ["fuzz_osv.c"],
           "fuzz_wheel": ["fuzz_wheel.c", "../../src/installer/wheel.c", "../../src/installer/config.c", "../../src/installer/index.c",
                          "../../src/installer/via.c"],
           "fuzz_html": ["fuzz_html.c"], "fuzz_audit": ["fuzz_audit.c"], "fuzz_oci": ["fuzz_oci.c"],
           "fuzz_sql": ["fuzz_sql.c"],
           "fuzz_objects": ["fuzz_objects.c", "../../src/objects/answer.c"],
           "fuzz_said": ["fuzz_said.c", "../../src/cli/said.c"],
           "fuzz_png": ["fuzz_png.c"] + ["../../src/cli/%s.c" % s for s in ("images", "images-draw", "flate", "png", "rows", "term")]}
SANITIZE = "address,undefined"
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-g", "-O1", "-fno-omit-frame-pointer", "-DFAKE_BYTES_MAX=300000", "-Wall",
         "-Wextra",
         "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-fno-sanitize-recover=undefined",
         '-DPACKAGE_VERSION="0"', '-DCBX_LIBEXEC_DIR=""', '-DCBX_SHARE_DIR=""', '-DCBX_SBIN_DIR=""',
         '-DCBX_APPARMOR_PROFILE=""']
LIBRARIES = ["libcap", "libcjson", "libevent_core", "libevent_openssl", "openssl", "libarchive", "nettle", "libcurl", "zlib"]
# What the targets use of the library; the linker takes from it what is needed.
PARTS = ["base", "box", "cgroup", "command", "execution", "http", "image", "interp", "mcp", "observe", "packages", "policy", "proxy",
         "pull", "render", "rest", "runtimes", "session", "tenant", "tools", "wire"]


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
    made = os.path.join(os.environ.get("CODEBOX_BUILD_DIR") or os.getcwd(), "src")  # sources that make has made
    flags = FLAGS + ["-I" + TOP + "/src", "-I" + made, "-I" + TOP + "/tests/unit", "-I" + HERE] + pkg("--cflags")
    sources = sorted(s for part in PARTS for s in glob.glob("%s/src/%s/*.c" % (TOP, part)))
    sources += [TOP + "/src/sandbox/" + s for s in ("plan.c", "hostnames.c")]  # what mounts are refused
    sources += [TOP + "/src/sql/" + s for s in ("judge.c", "words.c")]
    sources += [TOP + "/src/objects/" + s for s in ("sign.c", "azure.c")]  # links
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
              '{"ev":"sync","id":7}', '{"ev":"done","id":2,"status":"ok","count":1,"exit_code":3}']
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


def seeds_runtime():
    for path in sorted(glob.glob(TOP + "/src/runtimes/*/runtime.json")):
        with open(path, "rb") as f:
            text = f.read()
        yield text
        yield text.replace(os.path.basename(os.path.dirname(path)).encode(), b"python")
    yield '{"language": "python", "driver": "../x", "fork": 1, "rank": -1}'
    yield '{"language": "python", "driver": "d", "environment": {"": "x", "A=": "y"}, "aliases": ["", "-x"]}'


def seeds_cgroup():
    yield "0::/user.slice/user-1000.slice/session-3.scope\n"
    yield "12:memory:/a\n1:name=systemd:/\n0::/\n"
    yield "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    yield "25 1 0:22 /user.slice /sys/fs/cgroup\\040x rw - cgroup2 none rw\n26 25 0:23 / / rw - tmpfs tmpfs rw\n"
    yield "usage_usec 123\nuser_usec 1\noom_kill 18446744073709551616\n"
    yield "cpu io memory pids\n"
    yield "8:0 rbytes=1 wbytes=2 rios=3 wios=4\n8:16 rbytes=18446744073709551615 wbytes=x\n"
    yield "max\n"


def seeds_rest():
    yield from ("/sessions/a/files/b%20c/d", "/execute/a.1/stream", "/sessions/a/commands/7/output", "/sessions", "/health", "wait=5&path=a%2Fb", "wait=1&wait=2",
                "bytes=0-5", "bytes=-3", "bytes=7-", "numpy>=1.2,<3", "a/b/../c", "/execute/a.b.18446744073709551617/status")


def seeds_multipart():
    def part(names, data, more=""):
        return "--b\r\nContent-Disposition: form-data; %s%s\r\n\r\n%s\r\n" % (names, more, data)

    one, two = part('name="file"; filename="a b.txt"', "x"), part("filename=c; name=d", "", "\r\nContent-Type: text/plain")
    for body in (one + "--b--", one + two + "--b--\r\n", "--b--", part('name="x"', "1") + "--b--", one.replace("a b", "..") + "--b--",
                 one + one + "--b--", one + "--bb--", part('name="x"; filename="%22"', "\r\n--\r\n-b") + "--b--\r\n"):
        for kind in ("multipart/form-data; boundary=b", 'Multipart/Form-Data; charset=utf-8; boundary="b"'):
            yield kind + "\n" + body


def seeds_tar():
    entries = [dict(name="./", type=tarfile.DIRTYPE, mode=0o755), dict(name="d/", type=tarfile.DIRTYPE, mode=0o1777),
               dict(name="d/a b", size=600, mode=0o644, mtime=1700000000.25), dict(name="empty"), dict(name="\u00e9\n" * 60, size=1),
               dict(name="d/l", type=tarfile.SYMTYPE, linkname="../empty"), dict(name="h", type=tarfile.LNKTYPE, linkname="d/a b"),
               dict(name="l" * 120, type=tarfile.SYMTYPE, linkname="t" * 120)]
    bad = [dict(name="../x"), dict(name="/x"), dict(name="p", type=tarfile.FIFOTYPE), dict(name="s", mode=0o4755),
           dict(name="l", type=tarfile.SYMTYPE, linkname="/etc"), dict(name="l", type=tarfile.SYMTYPE, linkname="a/../..")]
    for kind in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        for some in [entries] + [[entries[2], b] for b in bad]:
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w", format=kind) as t:
                for fields in some:
                    info = tarfile.TarInfo()
                    for key, value in fields.items():
                        setattr(info, key, value)
                    try:
                        t.addfile(info, io.BytesIO(b"x" * info.size))
                    except (ValueError, UnicodeError):
                        pass  # ustar has no room for it
            yield out.getvalue().rstrip(b"\0") + bytes(1100)


def seeds_packages():
    yield from ('# /// script\n# dependencies = ["a>1", \'b\']\n# ///\n', "a>=1 # x\nb[c]==1.*; python_version > '3'\n",
                '[project]\ndependencies = ["a>=1,<2"]\n[tool]\nx = {y = [1, """z"""]}\n', "1!2.0rc1.post2.dev3+local", ">=1,!=1.4.*")


def seeds_osv():
    affected = '{"package":{"ecosystem":"PyPI","name":"Some_Name"},%s}'
    ranges = '"ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":"1.2"},{"introduced":"1.4"},{"last_affected":"2"},' \
        '{"limit":"3"}]}]'
    yield '{"id":"GHSA-1","summary":"\u00e9","affected":[%s,%s]}' % (affected % ranges, affected % '"versions":["1.5","1.5.0"]')
    yield '[{"id":"A","withdrawn":null,"affected":[%s]},{"x":{}}]' % (affected % '"versions":["1.5"]')
    yield '[{"id":"A","n\\u0061me":"\\u0061","withdrawn":"2026"},{}]'
    yield "# popular\nsome-nam\nsomename\nname-some\nsome-name\n"


def seeds_wheel():
    yield "Metadata-Version: 2.1\nName: A\nVersion: 1.0\n\n[console_scripts]\nrun-it = a.main:cli.go [x]\n"
    yield "Name:a\r\nVersion:\t1\r\n[gui_scripts]\n; no\nb=a:b\n[console_scripts]\n../x = a:b\n"
    yield "[console_scripts]\nx = a:b\nx = c.d : e.f [y]\n[other]\nz = ../..\n"
    yield from ("#!python\nprint()\n", "#!pythonw -E", "#!/bin/sh\n", "[console_scripts]\na = os:system('x')\n")
    yield from ("https://a.example/x.whl", "file:///srv/wheels/a-1-py3-none-any.whl", "file:///srv/wheels/../x", "http://u:p@h:1/s",
                "http://index.example:8080@evil/", "http://INDEX.example:8080/a", "https://[::1]:1/?#@")


def seeds_tenants():
    yield '// all\n{"tenants": {"a": {"sessions": 2, "memory": "4G", "disk": 5, "cpus": 1.5, "requests_per_second": 1}, "b.c": {}}}'
    yield '{"tenants": {"a": {"policy": {"limits": {"memory": "1G"}}, "executions_per_second": 3, "requests_at_once": 2}}}'
    yield '{"tokens": [{"id": "abcdefg2", "tenant": "a", "name": "n", "scopes": "read,run", "sha256": "%s", ' \
          '"created": "2026-01-31T12:00:00Z", "expires": "2027-01-31T12:00:00Z"}]}' % ("0f" * 32)
    yield "cbx_abcdefg2_" + "a" * 52
    yield '{"jwt": {"issuer": "https://i", "audience": ["a", "b"], "keys": "k", "tenant_claim": "t", "scope_claim": "scp", ' \
          '"tenants": {"x y": "a"}, "leeway": "5s"}, "tenants": {"a": {}}}'


def seeds_jwt():
    x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"  # of RFC 8037
    yield '{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","use":"sig","alg":"EdDSA","key_ops":["verify"],"x":"%s"}]}' % x
    yield '{"keys":[{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",' \
          '"y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}'  # of RFC 7517
    yield '{"keys":[{"kty":"RSA","e":"AQAB","n":"%s"},{"kty":"oct","k":"AAAA"}]}' % ("v" + "A" * 340 + "Q")
    for header in '{"alg":"EdDSA","kid":"k","typ":"at+jwt"}', '{"alg":"EdDSA"}', '{"alg":"none"}', '{"alg":"EdDSA","crit":["b64"]}':
        yield header + '\n{"iss":"https://i","aud":["x","a"],"exp":1800000100,"nbf":1.5,"tenant":"acme","scope":"read run x"}'
    yield '{"alg":"EdDSA"}\n{"iss":"https://i","aud":"b","exp":1900000000,"tenant":"acme","scope":["run"],"sub":"\u00e9 \\""}'
    yield "eyJhbGciOiJFZERTQSJ9.e30.AAAA"


def seeds_audit():
    line = '{"seq":1,"time":"2026-01-31T12:00:00.000Z","event":"start","prev":"%s"}' % ("0" * 64)
    yield line + "\n"
    yield line + '\n{"seq":2,"prev":"%s"}\n' % hashlib.sha256(line.encode()).hexdigest()
    yield '{"se\n' + line
    yield from ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "01-" + "0" * 31 + "1-" + "0" * 15 + "1-00-x")


def seeds_http():
    yield from ("localhost:8080", "127.0.0.1", "[::1]:1", "http://localhost", "https://[::1]:443",
                "http://localhost.evil",
                "http://127.0.0.1@evil", "Bearer 0123456789abcdef", "bearer x", "localhost:0", "[::1]:65536",
                "127.0.0.1:", "5\r\nhello\r\n0\r\n\r\n",
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n",
                "GET /mcp?a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")


def png(width, height, depth, kind, rows, *chunks):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)) +
            b"".join(chunk(*c) for c in chunks) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def seeds_png():
    for depth, kind, bits in ((1, 0, 1), (8, 0, 8), (16, 0, 16), (8, 2, 24), (16, 2, 48), (8, 4, 16), (8, 6, 32), (16, 6, 64)):
        yield png(9, 5, depth, kind, b"".join(bytes([y]) + bytes(range((9 * bits + 7) // 8)) for y in range(5)))
    yield png(3, 2, 2, 3, b"\0\x1b\1\xe4", (b"PLTE", bytes(range(12))), (b"tRNS", b"\0\x80"))
    yield b"\x1b_Gi=31;OK\x1b\\\x1bP>|iTerm2 3.5\x1b\\typed\x1b[?62;4;22cmore"


def seeds_clean():
    yield from ("\x1b[31mred\x1b[0m", "\x1b]0;title\x07x\x1b\\\\", "\x9b2J", "\u202eevil\u2066\u200f\u061c", "a\tb\r\n\b\x7f",
                "\x1b[?1049h\x1bc\x1b[1;2;", "\U0001f600\u20ac", "\U000e0041\u2028\u200b\u200d\ufe0f\uffff")


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
        for first in (0, 2, 4, 8, 16):
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


def seeds_html():
    yield ("<style>a{}</style><table border=1><caption>C</caption><thead><tr><th></th><th colspan=2>x|y</th></tr></thead>"
           "<tbody><tr><th rowspan='2'>a</th><td>1</td><td>&nbsp;2</td></tr><tr><td>3<br>4<td>5</table><p>after")
    yield "<h1>T</h1><pre> a\n  b</pre><ul><li>one<li>two</ul><hr><img alt=\"cat > dog\" src=x><!-- c --><a href='x'>y</a>"
    yield "&amp;&#65;&#x1F600;&#0;&#xd800;&#27;&bogus;&<1 <b <script>if (a<b) {}</script <title>t</title>"
    yield "<table><tr><td><table><tr><td>in</td></tr></table></td></tr>"
    yield '<svg xmlns="http://www.w3.org/2000/svg"><text x="1">label</text><path d="M0 0"/></svg>'


def seeds_oci():
    one = '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:' + "0123456789abcdef" * 4 + '","size":7%s}'
    layer = one % ("layer.v1.tar+gzip", "")
    for first in "\0\1\2\4\5":
        yield first + '{"manifests":[%s,%s,%s]}' % (
            one % ("manifest.v1+json", ',"platform":{"os":"linux","architecture":"amd64"}'),
            one % ("manifest.v1+json", ',"annotations":{"org.opencontainers.image.ref.name":"latest"}'),
            one % ("index.v1+json", ',"platform":{"os":"linux","architecture":"arm","variant":"v7"}'))
        yield first + '{"schemaVersion":2,"config":%s,"layers":[%s,%s]}' % (one % ("config.v1+json", ""), layer, layer)
        yield first + '{"os":"linux","architecture":"amd64","config":{"Env":["A=b","HOME=/","=","B"],"User":"u",' \
            '"WorkingDir":"/","Entrypoint":["x"],"Cmd":["y"]},"rootfs":{"diff_ids":["a","b","c"]}}'
    yield "\0linux/arm/v7"
    yield from ("\0a", "\0127.0.0.1:5000/a/b_c:v1.2", "\0[::1]:1/a--b@sha256:" + "0123456789abcdef" * 4)
    yield '\0Bearer realm="https://a.b/c",service="x, \\"y",scope=z'
    yield '\0{"auths":{"https://index.docker.io/v1/":{"auth":"dTpw"},"example.org/a":{"username":"u","password":"p"}}}'
    yield "\0sha256:" + "0123456789abcdef" * 4 + ".json"


def seeds_proxy():
    hello = bytes.fromhex("16030100460100004203037272727272727272727272727272727272727272727272727272727272727272"
                          "000002130101000017002b0003020304" "0000000c000a000007612e622e6f7267")
    return ["GET http://a.example:81/x?y HTTP/1.1\r\nHost: a.example:81\r\nConnection: X\r\nX: y\r\n\r\n",
            "POST /p HTTP/1.1\r\nHost: [fd00::1]\r\nContent-Length: 3\r\n\r\nabc",
            "POST http://a/ HTTP/1.0\r\n\r\n", "CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\n\r\n",
            "PUT http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\nGET", b"\5\1\0\3\3a.b\1\xbb", b"\5\2\2\0",
            b"\5\1\0\4" + bytes(15) + b"\1\0\x50", hello, "127.0.0.1", "[::ffff:1.2.3.4]", "xn--bcher-kva.example.",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"]


def seeds_said():
    hello = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    yield hello + '{"id":"a","method":"tools/call","params":{"x":[1,{}]}}\n\n{"jsonrpc":"2.0","id":0,"result":{}}'
    yield hello + '{"params":{"level":"error"},"method":"logging/setLevel","id":-1}\n{"method":"x","id":1.5}'
    yield '[{"id":1,"method":"subscriptions/listen"} , {"method":"notifications/cancelled","params":{"requestId":1}}]\n[}\n[,{}]'
    yield from ('{"id":2,"method":"resources/%s","params":{"uri":"a:b"}}' % m for m in ("subscribe", "unsubscribe"))
    yield hello.replace("{}", '"\0"') + '{"method":"x","id":}\n\n{"id":"codebox-bridge-0","result":{}}'


def seeds_objects():
    yield "<Error><Code>SlowDown</Code><Message>Please &lt;wait&gt;</Message></Error>"
    yield "<InitiateMultipartUploadResult><UploadId>a+b/c==</UploadId></InitiateMultipartUploadResult>"
    yield "<Code></Code><UploadId><b></UploadId>"
    yield from ('ETag: "d41d8cd98f00b204e9800998ecf8427e"\r\n', "content-length:  12 \r\n", "etag", "a/b \u00e9%.html",
                "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=AAAA;EndpointSuffix=example.org",
                "BlobEndpoint=https://a.example.org:81/x;SharedAccessSignature=sv=1&sig=x")


def seeds_sql():
    for first in "\0\1\2\3\4":
        yield first + "WITH a AS (SELECT 'it''s', \"b\"\"c\", `d`, [e]]], $x$ ; $x$, E'\\'', 1e5 FROM t) -- c\n/* /* */ */;"
        yield first + "SELECT ?, {fn now()}, @a := 0x1F # ;\n; DELETE FROM t /*! ; */"
        yield first + "select pg_read_file (?) into x for update"


SEEDS = {"fuzz_json": seeds_json, "fuzz_rpc": seeds_rpc, "fuzz_frame": seeds_frame, "fuzz_policy": seeds_policy, "fuzz_runtime": seeds_runtime,
         "fuzz_cgroup": seeds_cgroup, "fuzz_http": seeds_http, "fuzz_proxy": seeds_proxy, "fuzz_jwt": seeds_jwt, "fuzz_tenants": seeds_tenants,
         "fuzz_rest": seeds_rest, "fuzz_multipart": seeds_multipart, "fuzz_clean": seeds_clean,
         "fuzz_tar": seeds_tar, "fuzz_unpack": seeds_unpack, "fuzz_init": seeds_init,
         "fuzz_packages": seeds_packages, "fuzz_osv": seeds_osv, "fuzz_wheel": seeds_wheel,
         "fuzz_html": seeds_html, "fuzz_audit": seeds_audit, "fuzz_oci": seeds_oci, "fuzz_sql": seeds_sql,
         "fuzz_objects": seeds_objects, "fuzz_png": seeds_png, "fuzz_said": seeds_said}


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
