#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That each check of what sessions may reach is needed by a test: takes out one after the other, builds what has it, and runs the
test that is named beside it, of ../probe/network.py or of FILES, which must fail then. A part of
make soak; by hand, from a build directory:

    ../tests/integration/network_mutants.py [WORD...]

With words, those alone in whose file, text or test one of them is. It copies the sources into a directory of its own, and changes nothing else."""
import os
import shutil
import subprocess
import sys
import tempfile

# Where tests are that are named with a colon.
FILES = {"unit": "tests/unit/test_network", "secrets": "tests/unit/test_secrets", "probe": "tests/probe/secrets.py",
         "clients": "tests/integration/secrets.py", "allowed": "tests/integration/network.py"}
TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

# What is replaced in which file, by what, and the test that has to see it.
MUTANTS = [
    # Addresses and names.
    ("policy/host.c", "if (why || !ends_in_number(ret->name))", "if (1)", "addresses_in_every_spelling"),
    ("policy/host.c", "if (s[n - 1] == '.')\n\t\treturn \"an address does not end with a dot\";", "", "addresses_in_every_spelling"),
    ("policy/host.c", "if (memchr(s, '%', n))", "if (0)", "ipv6_forms_and_scopes"),
    ("policy/host.c", "if (cbx_ip_range_has(&r, ip))\n\t\t\treturn specials[i].what;", "", "names_that_lead_inside"),
    ("policy/host.c", "return ip->v6 && (ip->bytes[0] & 0xe0) != 0x20 ? \"not a global address\" : NULL;", "return NULL;",
     "a_rule_for_everything_is_about_what_is_public"),
    ("policy/host.c", "{ 0, 8, { 0 }, \"this machine (0.0.0.0/8)\" },", "", "a_rule_for_everything_is_about_what_is_public"),
    ("policy/host.c", "{ 0, 8, { 10 }, \"private\" },", "", "names_that_lead_inside"),
    ("policy/host.c", "{ 0, 10, { 100, 64 }, \"shared by a provider's customers (100.64.0.0/10)\" },", "", "names_that_lead_inside"),
    ("policy/host.c", "{ 0, 8, { 127 }, \"loopback\" },", "", "names_that_lead_inside"),
    ("policy/host.c", "{ 0, 8, { 127 }, \"loopback\" },", "", "redirects"),
    ("policy/host.c", "{ 0, 16, { 169, 254 }, \"link-local, where clouds keep their metadata\" },", "", "names_that_lead_inside"),
    ("policy/host.c", "{ 0, 4, { 224 }, \"multicast\" },", "", "names_that_lead_inside"),
    ("policy/host.c", "{ 1, 32, { 0x20, 0x01, 0x0d, 0xb8 }, \"for documentation\" },", "", "names_that_lead_inside"),
    ("policy/host.c", "{ 1, 16, { 0x20, 0x02 }, \"an IPv4 address in 6to4 form\" },", "", "names_that_lead_inside"),
    ("policy/network-match.c", "return !cbx_ip_special(ip);", "return true;", "names_that_lead_inside"),
    ("policy/network-match.c", "return strlen(name) > strlen(suffix) && cbx_ends_with(name, suffix);",
     "return cbx_ends_with(name, suffix + 1);", "names_in_odd_spellings"),
    ("policy/host.c", "label = c == '.' ? 0 : label + 1;", "label = label + 1;", "names_in_odd_spellings"),
    ("proxy/conn.c", "&t, &l->ips[i]);", "&t, NULL);", "rebinding"),
    ("proxy/conn.c", "&t, &l->ips[i]);", "&t, i ? NULL : &l->ips[i]);", "the_other_address_of_a_name"),
    ("proxy/conn.c", "} else if (!cbx_network_allows(&c->proxy->rules, &t, NULL)) {", "} else if (0) {",
     "a_name_that_is_refused_is_not_asked_for"),
    ("proxy/conn.c", "} else if (!cbx_network_allows(&c->proxy->rules, &t, NULL)) {", "} else if (0) {", "ports"),
    ("policy/network-match.c", "if (r->ports[i] == port)", "if (1)", "ports"),
    ("policy/host.c", "if (!n || n > 5 || s[0] == '0')", "if (!n || n > 5)", "ports"),
    # Tunnels.
    ("proxy/conn.c", "if (c->port != 80 && ", "if (", "what_goes_to_port_80_is_read"),
    ("proxy/conn.c", "if (c->pinned && (", "if (0 && (", "what_goes_to_port_80_is_read"),
    ("proxy/conn.c", "else if (q.command != 1)", "else if (0)", "odd_socks"),
    ("proxy/first.c", "return memchr(p + 2, 0, p[1]) ? 2 + p[1] : -1;", "return 2 + p[1];", "odd_socks"),
    ("proxy/relay.c", "if (c->port != 443)\n\t\t\treturn 1;", "return 1;", "sni"),
    ("proxy/relay.c", "else if (cbx_host_parse(name, strlen(name), &named) || strcmp(named.name, c->host.name) != 0)",
     "else if (0)", "sni"),
    ("proxy/relay.c", "else if (!name[0])\n", "else if (!name[0])\n\t\treturn 1;\n\telse if (0)\n", "sni"),
    ("proxy/relay.c", "else if (!name[0] && c->host.literal)", "else if (c->host.literal)", "sni"),
    ("proxy/first.c", " || memchr(one.p, 0, one.n))", ")", "sni"),
    ("proxy/first.c", "if (seen || !server_name(one, name))", "if (!seen && !server_name(one, name))",
     "names_that_only_the_server_can_read"),
    ("proxy/relay.c", "else if (hidden && c->rule->kind != CBX_NET_ANY)", "else if (0)", "names_that_only_the_server_can_read"),
    ("proxy/first.c", " || type == ENCRYPTED_NAME)", ")", "names_that_only_the_server_can_read"),
    # Requests.
    ("policy/network-match.c", "path = path_plain(t->path) && ", "path = ", "methods_and_paths"),
    ("policy/network-match.c", "if (n < 2 || !isxdigit((unsigned char)p[0]) || !isxdigit((unsigned char)p[1]))", "if (0)",
     "methods_and_paths"),
    ("policy/network-match.c", "\"c0\",", "", "methods_and_paths"),
    ("policy/network-match.c", "\"e0%8\",", "", "methods_and_paths"),
    ("policy/network-match.c", "if (!t->method || !t->path || t->overrides)\n\t\treturn false;",
     "if (!t->method || !t->path)\n\t\treturn true;", "methods_and_paths"),
    ("policy/network-match.c", "method = strcmp(r->methods[i], t->method) == 0;", "method = true;", "methods_and_paths"),
    ("policy/network-match.c", " || t->overrides)", ")", "headers_that_replace_method_or_path"),
    ("proxy/head.c", "if (rd->host)\n\t\treturn refuse(h, 400, \"there are two Host headers\");", "", "smuggling"),
    ("proxy/head.c", "if (rd.chunked && rd.length)", "if (0)", "smuggling"),
    ("proxy/head.c", "if (rd->length)\n\t\treturn refuse(h, 400, \"there are two Content-Length headers\");", "", "smuggling"),
    ("proxy/head.c", "if (value->p[i] < '0' || value->p[i] > '9')", "if (0)", "smuggling"),
    ("proxy/head.c", "if (rd->chunked || h->old || !is(value, \"chunked\"))", "if (0)", "smuggling"),
    ("proxy/head.c", "has_name(&line, \"Content-Length\") || ", "", "smuggling"),
    ("proxy/head.c", " || has_name(&line, \"Transfer-Encoding\")", "", "smuggling"),
    ("proxy/head.c", "if (!name.n || name.n >= n || p[name.n] != ':')", "if (0)", "smuggling"),
    ("proxy/head.c", "if (p[i] == '\\n' && (i == 0 || p[i - 1] != '\\r'))\n\t\t\treturn -1;", "", "smuggling"),
    ("proxy/head.c", "if (p[i] == '\\r' && i + 1 < n && p[i + 1] != '\\n')\n\t\t\treturn -1;", "", "smuggling"),
    ("proxy/head.c", "if (((unsigned char)value.p[i] < ' ' && value.p[i] != '\\t') || value.p[i] == 0x7f)", "if (0)", "smuggling"),
    ("proxy/head.c", "if (hex(byte) < 0 || ++c->digits > 12)", "if (hex(byte) < 0 || !++c->digits)", "smuggling"),
    ("proxy/head.c", "if (hex(byte) < 0 || ++c->digits > 12)", "if (++c->digits > 12)", "unit"),
    ("proxy/head.c", "return byte == '\\r' ? DATA_LF : -1;", "return DATA_LF;", "smuggling"),
    ("proxy/head.c", "if (h->absolute && (strcmp(host.name, h->host.name) != 0 || port != h->port))", "if (0)",
     "the_authority_decides"),
    ("proxy/head.c", "if (memchr(p, '@', n))", "if (0)", "the_authority_decides"),
    ("proxy/head.c", "if (version == 8 && strncmp(end + 1, \"HTTP/2.0\", 8) == 0)", "if (0)", "http2_and_upgrades"),
    ("proxy/head.c", "\"Upgrade\",", "", "http2_and_upgrades"),
    ("proxy/head.c", "\"HTTP2-Settings\",", "", "http2_and_upgrades"),
    ("proxy/relay.c", "if (status == 101)\n\t\t\treturn false;", "", "http2_and_upgrades"),
    ("proxy/head.c", "return n >= CBX_HEAD_MAX ? refuse(ret, 431, \"the head of the request has more than 64 KiB\") : 0;", "return 0;",
     "huge_heads"),
    ("proxy/relay.c", "taken = c->body == CBX_BODY_LENGTH ? (ptrdiff_t)(c->left < n ? c->left : n) : 0;",
     "taken = (ptrdiff_t)n;", "allowed:bodies_pass_whole_and_nothing_behind_them"),
    # Without the proxy.
    ("sandbox/enter.c", "CLONE_NEWNS | CLONE_NEWNET | ", "CLONE_NEWNS | ", "proxy_variables_removed"),
    ("sandbox/enter.c", "CLONE_NEWNS | CLONE_NEWNET | ", "CLONE_NEWNS | ", "sockets_of_the_machine"),
    ("sandbox/enter.c", "CLONE_NEWNS | CLONE_NEWNET | ", "CLONE_NEWNS | ", "the_proxy_is_for_its_session_alone"),
    ("../policies/syscalls/groups/inet", "EPROTONOSUPPORT socket arg0=2\n", "socket arg0=2\n", "sockets_of_other_kinds"),
    ("../policies/syscalls/groups/inet", "EPERM socket arg0=2 arg1&0xfff7f7ff=3\n", "", "sockets_of_other_kinds"),
    ("../policies/syscalls/groups/inet", "EPROTONOSUPPORT socket arg0=16\n", "socket arg0=16\n", "sockets_of_other_kinds"),
    # Limits.
    ("proxy/serve.c", "if (p->n >= p->rules.connections && !make_room(p)) {", "if (p->n >= p->rules.connections) {",
     "allowed:slow_peers_cost_others_nothing"),
    ("proxy/conn.c", "if (c->proxy->rules.bytes && c->proxy->bytes >= c->proxy->rules.bytes) {", "if (0) {", "allowed:limits"),
    ("proxy/relay.c", "c->proxy->bytes += c->up.data.len + in.len;", "", "heads_count"),
    ("proxy/conn.c", "} else if (p->now_ms - c->born_ms >= p->rules.time_ms) {", "} else if (0) {", "allowed:limits"),
    # Secrets.
    ("policy/network-match.c", "if (r->nsecrets && (!t->method || !t->path || (!t->tls && !r->plain)))", "if (0)", "secrets"),
    ("policy/network-match.c", "if (!cbx_net_secrets_equal(a, b))\n\t\treturn false;", "", "secrets"),
    ("policy/network-match.c", "ret->plain = a->plain && b->plain;", "ret->plain = a->plain || b->plain;", "secrets"),
    ("policy/network-secrets.c", "if (strcasecmp(s, never[i]) == 0)\n\t\t\treturn false;", "", "secrets"),
    ("policy/network.c", "if (r->nsecrets && r->kind != CBX_NET_NAME)", "if (0)", "secrets"),
    ("proxy/secrets.c", "hide_one(all->all[i].value, p, n);", ";", "probe:answers_do_not_show_it"),
    ("proxy/secrets.c", "while (!end && keep < n &&", "while (0 && keep < n &&", "secrets"),
    ("proxy/secrets.c", "p[n - keep - 1] > ' ' && ", "all->all[0].value[keep] == p[n - keep - 1] && ", "secrets"),
    ("proxy/secrets.c", "return n < CBX_TOKEN_MIN ? ", "return 0 ? ", "clients:what_is_missing"),
    ("proxy/secrets.c", "if (value[i] <= ' ' || value[i] > '~')", "if (0)", "secrets"),
    ("proxy/secrets.c", "return p == end;", "return true;", "secrets"),
    ("proxy/head.c", "bool is_replaced = nadded && has_name(header, \"Accept-Encoding\");", "bool is_replaced = false;", "secrets"),
    ("proxy/head.c", "is_replaced = has_name(header, added[i].name);", "is_replaced = false;", "probe:headers_of_its_name"),
    ("tls/pump.c", "p->again = true;", "p->again = false;", "probe:handshakes_again"),
    ("policy/network-match.c", "path = path_plain(t->path) && ", "path = ", "probe:only_what_the_rule_allows"),
    ("proxy/relay.c", "taken = c->body == CBX_BODY_LENGTH ? (ptrdiff_t)(c->left < n ? c->left : n) : 0;",
     "taken = (ptrdiff_t)n;", "probe:one_request_and_none_behind_it"),
    ("proxy/relay.c", "if (waiting(&c->down))\n\t\treturn true;\n", "",
     "probe:who_reads_slowly_does_not_choose_where_an_answer_is_cut"),
    ("proxy/head.c", "header->p[i] == '_' ? '-' : ", "", "secrets"),
    ("proxy/head.c", "if (h->standard != 80)\n", "if (0)\n", "secrets"),
    ("proxy/head.c", "if (strcmp(h->method, \"TRACE\") == 0)", "if (0)", "probe:http2_and_upgrades"),
    ("proxy/conn.c", "if (!rule || (c->rule && rule != c->rule)) {", "if (!rule) {", "probe:a_rule_adds_for_its_own_addresses"),
    ("proxy/conn.c", "if (c->port != 80 && !cbx_network_opens(&c->proxy->rules, &t)) {", "if (c->port != 80) {",
     "clients:requests_and_urllib"),
    ("proxy/conn.c", "strcmp(c->head.host.name, c->host.name) != 0 || c->head.port != c->port", "0",
     "probe:the_tunnel_is_for_one_host"),
    ("proxy/conn.c", "if (!within_is_tls(&c->in)) {", "if (0) {", "probe:the_tunnel_is_for_one_host"),
    ("proxy/conn.c", "\"codebox: a secret that", "why ? why : \"codebox: a secret that", "clients:what_is_missing"),
    ("tls/main.c", "if (name && wanted && strcasecmp(name, wanted) == 0)", "if (1)", "probe:the_tunnel_is_for_one_host"),
    ("tls/main.c", "if (name && wanted && strcasecmp(name, wanted) == 0)", "if (!name || strcasecmp(name, wanted) == 0)",
     "probe:a_name_in_every_spelling"),
    ("tls/main.c", "!= OPENSSL_NPN_NEGOTIATED)\n\t\treturn SSL_TLSEXT_ERR_ALERT_FATAL;",
     "!= OPENSSL_NPN_NEGOTIATED)\n\t\treturn SSL_TLSEXT_ERR_NOACK;", "probe:http2_and_upgrades"),
    ("tls/main.c", "SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);", "", "clients:servers_are_verified"),
    ("tls/main.c", " && SSL_set1_host(ssl, name) == 1", "", "clients:servers_are_verified"),
    ("proxy/main.c", " || prctl(PR_SET_DUMPABLE, 0) < 0", "", "probe:its_processes_are_not_to_be_looked_into"),
]


def sh(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def make(build, *what):
    r = sh("make", "-s", "-j2", "CFLAGS=-O0 -g -Wno-error", *what, cwd=build)
    assert r.returncode == 0, r.stdout[-3000:]


def install(build, path):
    """What a source is in: of the files that most of this is about, one program."""
    for folder, program in (("proxy/", "codebox-proxy"), ("policy/", "codebox-proxy"), ("tls/", "codebox-tls")):
        if path.startswith(folder):
            make(build, program)
            there = os.path.join(build, "tests/stage/usr/local/libexec/codebox", program)
            os.unlink(there)  # it may run
            shutil.copy2(os.path.join(build, program), there)
            return
    make(build, "stage")


def passes(build, test):
    """Whether a test passes; without a name behind the colon, all of the file do."""
    where, _, name = test.partition(":")
    if where in FILES and FILES[where].startswith("tests/unit/"):
        make(build, FILES[where])
        r = sh(os.path.join(build, FILES[where]), cwd=build)
        return r.returncode == 0 and "not ok" not in r.stdout
    stage = os.path.join(build, "tests/stage/usr/local")
    r = sh(sys.executable, os.path.join(TOP, FILES.get(where, "tests/probe/network.py")), cwd=build, env=dict(
        os.environ, CODEBOX=stage + "/bin/codebox", CODEBOX_DAEMON=stage + "/sbin/codeboxd", PYTHONDONTWRITEBYTECODE="1",
        CODEBOX_LIBEXEC_DIR=stage + "/libexec/codebox", CODEBOX_SHARE_DIR=stage + "/share/codebox",
        CODEBOX_IMAGE_BIN=stage + "/libexec/codebox/codebox-image", CODEBOX_BUILD_DIR=build,
        CBX_NETWORK_TEST=name or ("" if where in FILES else where)))
    assert "# SKIP" not in r.stdout, r.stdout
    return r.returncode == 0


def main():
    work = tempfile.mkdtemp(prefix="mutants")
    tree, build = os.path.join(work, "tree"), os.path.join(work, "build")
    shutil.copytree(TOP, tree, symlinks=True, ignore=lambda d, names: [n for n in names if n.startswith(("_", ".git"))])
    os.mkdir(build)
    missed = 0
    wanted = [m for m in MUTANTS if not sys.argv[1:] or any(w in t for w in sys.argv[1:] for t in m)]
    try:
        r = sh(os.path.join(tree, "configure"), "-q", cwd=build)
        assert r.returncode == 0, r.stdout[-3000:]
        make(build, "stage")
        make(build, "tests/unit/test_network", "tests/unit/test_secrets")
        for test in sorted({t for *_, t in wanted}):
            assert passes(build, test), f"{test} fails without a mutant"
        for path, what, instead, test in wanted:
            missed += not judge(tree, path, what, instead, test, build)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{len(wanted) - missed} of {len(wanted)} are seen")
    sys.exit(1 if missed else 0)


def judge(tree, path, what, instead, test, build):
    source = os.path.join(tree, "src", path)
    with open(source) as f:
        text = f.read()
    assert text.count(what) == 1, f"{path}: {text.count(what)} times: {what}"
    with open(source, "w") as f:
        f.write(text.replace(what, instead))
    try:
        install(build, path)
        failed = not passes(build, test)
    finally:
        with open(source, "w") as f:
            f.write(text)
        install(build, path)
    print("seen  " if failed else "MISSED", os.path.basename(path), test, "|", what.split("\n")[0], flush=True)
    return failed


if __name__ == "__main__":
    main()
