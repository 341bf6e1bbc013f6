// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/proxy-operator/proxy-operator/internal/forwardproxy"
)

func forwardProxyCommand() *cobra.Command {
	var o forwardproxy.Options
	cmd := &cobra.Command{
		Use:   "forward-proxy",
		Short: "Run one forward proxy",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return forwardproxy.Run(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "127.0.0.1:3128", "HOST:PORT to listen on; port 0 takes a free one, which the ready file tells")
	f.StringVar(&o.AuthDir, "auth-dir", "", "folder with the files username and password; without it nobody is asked")
	f.StringVar(&o.EgressBind, "egress-bind", forwardproxy.EgressBindAuto, "source address towards loopback targets: auto, off, or an address in 127/8")
	f.BoolVar(&o.DenyLocal, "deny-local", false, "don't connect to this machine itself, its link, multicast, or the metadata services of clouds")
	f.StringVar(&o.LogFormat, "log-format", forwardproxy.LogJSON, "json or console")
	f.BoolVar(&o.Verbose, "verbose", false, "log failed requests too, with their hosts")
	f.StringVar(&o.ReadyFile, "ready-file", "", "file to write address, port and PID to when the proxy listens")
	f.StringVar(&o.LockFile, "lock-file", "", "file to lock for the life of the process")
	f.IntVar(&o.MaxConnections, "max-connections", 0, "clients at a time; 0 is the built-in limit")
	f.DurationVar(&o.IdleTimeout, "idle-timeout", 0, "end connections that are silent for this long; 0 is the built-in limit")
	f.DurationVar(&o.ShutdownGrace, "shutdown-grace", 0, "how long open tunnels may go on after a signal; 0 is the built-in limit")
	return cmd
}
