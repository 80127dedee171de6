# SPDX-License-Identifier: Apache-2.0
# codeboxd on each client of Nomad that is meant for it, behind HAProxy with haproxy.cfg of this directory: its servers have the
# names and addresses of these clients. See "Several machines" in codeboxd(8).
#
# Such a client has Debian's package codebox-server; the user codebox with subordinate ids (/etc/subuid, /etc/subgid) and an image
# for sessions; in /etc/codebox the files below; and in its configuration the driver raw_exec, and
#     client {
#       max_kill_timeout = "24h"
#       meta { codebox_node = "a" }
#     }
job "codeboxd" {
  # One for each client: sessions live on one machine, and nothing is rescheduled to another.
  type = "system"

  constraint {
    attribute = "${meta.codebox_node}"
    operator  = "is_set"
  }

  group "codeboxd" {
    network {
      port "https" {
        static = 8443
      }
      port "agent" {
        static = 8081
      }
    }

    task "codeboxd" {
      driver = "raw_exec"
      user   = "codebox"
      # It drains: HAProxy makes no new sessions here, and codeboxd ends after the last of its own.
      kill_signal  = "SIGUSR1"
      kill_timeout = "24h"

      env {
        CODEBOX_NODE = "${meta.codebox_node}"
      }

      config {
        command = "/usr/sbin/codeboxd"
        args = [
          "--foreground",
          "--http=${NOMAD_IP_https}:8443",
          "--http-url=https://box.example.org",
          "--http-certificate=/etc/codebox/tls/nodes.pem",
          "--http-key=/etc/codebox/tls/nodes.key",
          "--tenants=/etc/codebox/tenants.json",
          "--agent=${NOMAD_IP_agent}:8081",
          "--log-format=json",
        ]
      }

      resources {
        cpu    = 2000
        memory = 8192
      }
    }
  }
}
