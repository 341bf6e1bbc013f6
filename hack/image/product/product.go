// SPDX-License-Identifier: Apache-2.0

// Package product builds the operator's container image from a checkout, without a container engine: a static binary and
// what the Dockerfile says beside it. Two builds of the same sources by the same Go release give the same digest.
package product

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/proxy-operator/proxy-operator/hack/child"
	"github.com/proxy-operator/proxy-operator/hack/image/oci"
	"github.com/proxy-operator/proxy-operator/hack/image/sbom"
)

const (
	// maxCompressed is how many bytes a node may have to fetch at most.
	maxCompressed = 30 << 20
	// User is nobody on any system. It is a number, as the kubelet can't check runAsNonRoot against a name.
	User = "65532:65532"

	title  = "proxy-operator"
	binary = "proxy-operator"
)

// Options say what to build.
type Options struct {
	// Root is the checkout.
	Root string
	// Name is the image's, with its tag.
	Name string
	// Version is what the binary tells, and a label.
	Version string
	// Platforms are OS/ARCH; several give one image for all of them.
	Platforms []string
	// Out is the file for the image. The SBOMs are put beside it, as OUT.OS-ARCH.spdx.json.
	Out string
}

// labels are those of the image and of the Dockerfile.
func labels(version string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       title,
		"org.opencontainers.image.description": "Runs fleets of forward proxies from Proxy objects in Kubernetes",
		"org.opencontainers.image.source":      "https://github.com/proxy-operator/proxy-operator",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     version,
	}
}

// entrypoint is the binary; a subcommand follows.
func entrypoint() []string { return []string{"/" + binary} }

// Build builds the image. A file that is there already is replaced once the new one is whole.
func Build(ctx context.Context, o Options) (oci.Written, error) {
	if err := os.MkdirAll(filepath.Dir(o.Out), 0o750); err != nil {
		return oci.Written{}, fmt.Errorf("make folder of the image: %w", err)
	}
	var images []oci.Image
	for _, platform := range o.Platforms {
		system, arch, ok := strings.Cut(platform, "/")
		if !ok {
			return oci.Written{}, fmt.Errorf("platform %q: write OS/ARCH, such as linux/amd64", platform)
		}
		data, err := Compile(ctx, o.Root, "./cmd", system, arch, "-X main.version="+o.Version)
		if err != nil {
			return oci.Written{}, err
		}
		if err := writeSBOM(o, data, system+"-"+arch); err != nil {
			return oci.Written{}, err
		}
		images = append(images, oci.Image{
			OS: system, Architecture: arch, User: User, Entrypoint: entrypoint(), Labels: labels(o.Version),
			Files: []oci.File{{Path: binary, Mode: 0o755, Data: data}},
		})
	}
	return Save(o.Out, o.Name, images...)
}

// Save writes images as one file, and refuses one that is too large.
func Save(out, name string, images ...oci.Image) (oci.Written, error) {
	var file bytes.Buffer
	done, err := oci.Write(&file, name, images...)
	if err != nil {
		return done, err
	}
	for i, size := range done.Compressed {
		if size > maxCompressed {
			return done, fmt.Errorf("image %s for %s: %d bytes compressed, more than %d", name, images[i].Architecture, size, maxCompressed)
		}
	}
	partial := out + ".partial"
	if err := errors.Join(os.WriteFile(partial, file.Bytes(), 0o600), os.Rename(partial, out)); err != nil {
		return done, fmt.Errorf("write image: %w", err)
	}
	return done, nil
}

func writeSBOM(o Options, binary []byte, platform string) error {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("read what the binary is made of: %w", err)
	}
	sum := sha256.Sum256(binary)
	list, err := sbom.SPDX(sbom.Subject{Name: title, Version: o.Version, Checksum: hex.EncodeToString(sum[:])}, info)
	if err != nil {
		return err
	}
	file := strings.TrimSuffix(o.Out, ".tar") + "." + platform + ".spdx.json"
	if err := os.WriteFile(file, list, 0o600); err != nil {
		return fmt.Errorf("write SBOM: %w", err)
	}
	return nil
}

// Compile returns a static binary of a package in the module at root. Neither the folder nor the state of the checkout
// are part of it.
func Compile(ctx context.Context, root, pkg, system, arch, ldflags string) ([]byte, error) {
	dir, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "image-")
	if err != nil {
		return nil, fmt.Errorf("make work folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "binary")
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", strings.TrimSpace("-s -w "+ldflags), "-o", out, pkg)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, &output, &output
	// GOAMD64 and GOARM64 of the caller would change what is built.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOTMPDIR="+dir)
	// In a group of its own the go command is ended together with its compilers. It doesn't outlive us, or it would make
	// its folder anew after whoever cleans up.
	cmd.SysProcAttr = child.Attributes()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build %s for %s/%s: %w\n%s", pkg, system, arch, errors.Join(ctx.Err(), err), child.Tail(output.String(), 20))
	}
	return os.ReadFile(out)
}
