// SPDX-License-Identifier: Apache-2.0

// Image builds the operator's container image as a file, without a container engine.
//
//	go run ./hack/image -out dist/image.tar
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/proxy-operator/proxy-operator/hack/image/product"
	"github.com/proxy-operator/proxy-operator/hack/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	o := product.Options{}
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.Out, "out", "dist/image.tar", "file for the image, an OCI layout in a tar file")
	flags.StringVar(&o.Name, "name", "ghcr.io/proxy-operator/proxy-operator:latest", "name of the image, with its tag")
	flags.StringVar(&o.Version, "version", "dev", "version that the binary and the image tell")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms, with commas between")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q: flags only", flags.Arg(0))
	}
	o.Platforms = strings.Split(*platforms, ",")
	var err error
	if o.Root, err = operator.Checkout(); err != nil {
		return err
	}
	done, err := product.Build(ctx, o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s is %s %s\n", o.Out, o.Name, done.Digest)
	for i, platform := range o.Platforms {
		_, failed := fmt.Fprintf(stdout, "  %s: %.1f MiB compressed\n", platform, float64(done.Compressed[i])/(1<<20))
		err = errors.Join(err, failed)
	}
	return err
}
