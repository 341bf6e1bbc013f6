// SPDX-License-Identifier: Apache-2.0

// Chart generates what of charts/proxy-operator isn't written by hand, and packages the chart.
//
//	go run ./hack/chart generate        # CRDs, rules of roles, README; `make manifests` runs it
//	go run ./hack/chart package DIR     # DIR/proxy-operator-VERSION.tgz, the same bytes for the same files; `make chart`
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const usage = `Usage: go run ./hack/chart COMMAND   (in the repository's root)

  generate     write the CRDs, the rules of roles and the README's table of charts/proxy-operator
  package DIR  write DIR/proxy-operator-VERSION.tgz and print its path
`

// errUsage is answered with the usage text.
var errUsage = errors.New("wrong usage")

func main() {
	switch err := run(".", os.Args[1:], os.Stdout); {
	case errors.Is(err, errUsage):
		_, _ = fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		_, _ = fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(root string, args []string, stdout io.Writer) error {
	chart := filepath.Join(root, "charts", "proxy-operator")
	switch {
	case len(args) == 1 && args[0] == "generate":
		return errors.Join(
			generateCRDs(filepath.Join(root, "config", "crd", "bases"), filepath.Join(chart, "templates", "crds")),
			generateRules(filepath.Join(root, "config", "rbac"), filepath.Join(chart, "templates", "_rules.tpl")),
			generateReadme(chart),
		)
	case len(args) == 2 && args[0] == "package":
		file, err := pack(chart, args[1])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, file)
		return err
	default:
		return errUsage
	}
}
