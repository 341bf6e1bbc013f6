#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: hack/verify.sh COMMAND [ARGUMENT ...]
# COMMAND generates files. Fails if it changed any (work that is merely uncommitted doesn't count), if a go.mod isn't
# tidy, if a kustomization doesn't render, or if a binary is tracked. `make verify` calls it.
set -euo pipefail

GO=${GO:-go}
KUSTOMIZE=${KUSTOMIZE:-kustomize}
top=$(git rev-parse --show-toplevel) || { echo "verify: compares by git; run it in a clone" >&2; exit 1; }
cd "$top"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

say() { echo "verify: $*"; }
fail() { echo "verify: $*" >&2; failed=1; }

# A git whose index and new objects live in the scratch folder, so that looking leaves no trace in the repository.
objects=$(cd "$(git rev-parse --git-path objects)" && pwd)
mkdir "$scratch/objects"
aside() {
	GIT_INDEX_FILE="$scratch/index" GIT_OBJECT_DIRECTORY="$scratch/objects" \
		GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects" git "$@"
}

# Prints an id of all files as they are now, but for ignored ones.
snapshot() { aside add --all && aside write-tree; }

say "generated files"
before=$(snapshot)
"$@"
after=$(snapshot)
if [ "$before" != "$after" ]; then
	aside --no-pager diff --stat "$before" "$after"
	aside --no-pager diff "$before" "$after" >"$scratch/diff"
	head -n 100 "$scratch/diff"
	fail "generated files were out of date. They are made anew now: look at them and commit them."
fi

say "go.mod"
for module in . tools tools/golangci tools/helm3 test/chart/helm4; do
	GOWORK=off "$GO" -C "$module" mod tidy -diff || fail "go.mod of $module isn't tidy: run go -C $module mod tidy"
done

say "kustomizations"
for overlay in config/default config/namespaced config/prometheus config/network-policy; do
	"$KUSTOMIZE" build "$overlay" >/dev/null || fail "$overlay doesn't render"
done

say "tracked files"
# numstat prints no counts for a binary file.
binaries=$(git diff --cached --numstat "$(git hash-object -t tree /dev/null)" | awk -F '\t' '$1 == "-" { print "  " $3 }')
[ -z "$binaries" ] || fail "binary files are tracked; what can be built or drawn as text doesn't belong here:
$binaries"

exit "$failed"
