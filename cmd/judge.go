// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/proxy-operator/proxy-operator/internal/judge"
)

func judgeCommand() *cobra.Command {
	var o judge.Options
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "Tell requests what they look like from the other end of a proxy",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return judge.Run(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.BindAddress, "bind-address", ":8080", "HOST:PORT to listen on")
	f.StringVar(&o.TLSCertPath, "tls-cert-path", "", "folder with tls.crt and tls.key, read again when they change; plain HTTP by default, by which alone a proxy can show what it adds")
	return cmd
}
