// SPDX-License-Identifier: Apache-2.0

package controlplane

import "strings"

const (
	cniPlugins   = "github.com/containernetworking/plugins/plugins/"
	containerdV2 = "github.com/containerd/containerd/v2"
	stripped     = "-s -w"
	pureGo       = "osusergo netgo urfave_cli_no_docs"
)

// recipe is how one binary is built.
type recipe struct {
	module, pkg, version, ldflags, tags string
	cgo                                 bool
}

func (m *modules) recipe(name string) recipe {
	switch name {
	case etcd:
		return recipe{module: "etcd", pkg: "go.etcd.io/etcd/server/v3", version: m.etcd, ldflags: stripped}
	case containerd, ctr:
		return m.containerdRecipe(name, "")
	case shim:
		return m.containerdRecipe(name, " no_grpc")
	case runc:
		// The one that needs C: libseccomp makes the filters of pods with seccomp's RuntimeDefault.
		return recipe{
			module: "runc", pkg: "github.com/opencontainers/runc", version: m.runc, cgo: true, tags: "seccomp " + pureGo,
			ldflags: stripped + " -extldflags -static -X main.version=" + strings.TrimPrefix(m.runc, "v"),
		}
	case cniLoopback, cniPtp:
		return recipe{module: "cni", pkg: cniPlugins + "main/" + name, version: m.cni, ldflags: stripped}
	case cniHostLocal:
		return recipe{module: "cni", pkg: cniPlugins + "ipam/" + name, version: m.cni, ldflags: stripped}
	default:
		return recipe{
			module: "kubernetes", pkg: "k8s.io/kubernetes/cmd/" + name, version: m.kubernetes,
			ldflags: stripped + versionStamp(m.kubernetes),
		}
	}
}

func (m *modules) containerdRecipe(name, tags string) recipe {
	return recipe{
		module: "containerd", pkg: containerdV2 + "/cmd/" + name, version: m.containerd, tags: pureGo + " static_build" + tags,
		ldflags: stripped + " -X " + containerdV2 + "/version.Version=" + m.containerd,
	}
}
