// SPDX-License-Identifier: Apache-2.0

// Chart generates what of charts/proxy-operator isn't written by hand, and packages the chart.
//
//	go run ./hack/chart generate        # CRDs, rules of roles, README, what the schema requires; `make manifests` runs it
//	go run ./hack/chart package DIR     # DIR/proxy-operator-VERSION.tgz, the same bytes for the same files; `make chart`
//	go run ./hack/chart earlier DIR     # DIR/proxy-operator-0.0.1.tgz, the chart of an earlier commit; `make e2e` upgrades from it
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/proxy-operator/proxy-operator/hack/chart/earlier"
)

const usage = `Usage: go run ./hack/chart COMMAND   (in the repository's root)

  generate     write the CRDs, the rules of roles, the README's table and what the schema requires of charts/proxy-operator
  package DIR  write DIR/proxy-operator-VERSION.tgz and print its path
  earlier DIR  write DIR/proxy-operator-0.0.1.tgz, the chart of the newest release before HEAD, else of the oldest commit that has
               one, and print its path and the commit
`

// errUsage is answered with the usage text.
var errUsage = errors.New("wrong usage")

func main() {
	switch err := run(context.Background(), ".", os.Args[1:], os.Stdout); {
	case errors.Is(err, errUsage):
		_, _ = fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		_, _ = fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, args []string, stdout io.Writer) error {
	chart := filepath.Join(root, "charts", "proxy-operator")
	switch {
	case len(args) == 1 && args[0] == "generate":
		return errors.Join(
			generateCRDs(filepath.Join(root, "config", "crd", "bases"), filepath.Join(chart, "templates", "crds")),
			generateRules(filepath.Join(root, "config", "rbac"), filepath.Join(chart, "templates", "_rules.tpl")),
			generateReadme(chart),
			generateSchema(chart),
		)
	case len(args) == 2 && args[0] == "package":
		file, err := pack(chart, args[1])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(stdout, file)
		return err
	case len(args) == 2 && args[0] == "earlier":
		c, commit, err := earlier.Chart(ctx, root)
		if err != nil {
			return err
		}
		file, err := chartutil.Save(c, args[1])
		if err != nil {
			return fmt.Errorf("archive the chart: %w", err)
		}
		_, err = fmt.Fprintf(stdout, "%s is the chart of %s\n", file, commit)
		return err
	default:
		return errUsage
	}
}
