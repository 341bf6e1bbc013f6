// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/proxy-operator/proxy-operator/internal/processlock"
	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	// zoneless holds the instances of accounts without zones.
	zoneless = "default"
	// trashPrefix and trashSuffix make the name of a directory that is being removed, which is no instance any more.
	trashPrefix = "."
	trashSuffix = ".gone"
)

// instanceName is the shape of Key.Name. Nothing else in the state directory is ever read, swept or removed, so that a
// state directory named by mistake costs nobody a file.
var instanceName = regexp.MustCompile(`^px-[a-z2-7]{24}$`)

// place is where an instance is, or would be.
type place struct {
	zone string // empty where the account has no zones
	name string
	dir  string // STATE/ZONE/NAME
}

func (p *Provider) place(zone, name string) place {
	folder := zone
	if zone == "" {
		folder = zoneless
	}
	return place{zone: zone, name: name, dir: filepath.Join(p.opts.StateDir, folder, name)}
}

// zoneOf is the zone whose instances are in the folder.
func zoneOf(folder string) string {
	if folder == zoneless {
		return ""
	}
	return folder
}

// find reads the place from a Ref. Only the two shapes that Create returns are taken: "NAME" and "ZONE/NAME". Zones
// that the configuration has lost still hold instances, so any zone will do.
func (p *Provider) find(op string, ref providers.Ref) (place, error) {
	if ref.Account != p.account {
		return place{}, &providers.Error{
			Class: providers.Permanent, Op: op, Code: providers.CodeWrongAccount,
			Err: fmt.Errorf("%s is not in account %s", ref, p.account),
		}
	}
	zone, name, zoned := strings.Cut(ref.Path, "/")
	if !zoned {
		zone, name = "", ref.Path
	}
	if zoned && !label.MatchString(zone) || !instanceName.MatchString(name) {
		return place{}, providers.Gone(op, ref) // nothing is ever made at such a path
	}
	return p.place(zone, name), nil
}

func (p *Provider) ref(pl place) providers.Ref {
	path := pl.name
	if pl.zone != "" {
		path = pl.zone + "/" + pl.name
	}
	return providers.Ref{Account: p.account, Path: path}
}

func (pl place) folder() string   { return filepath.Dir(pl.dir) }
func (pl place) record() string   { return filepath.Join(pl.dir, "record.json") }
func (pl place) lock() string     { return filepath.Join(pl.dir, lockName) }
func (pl place) ready() string    { return filepath.Join(pl.dir, "ready.json") }
func (pl place) output() string   { return filepath.Join(pl.dir, "log") }
func (pl place) userData() string { return filepath.Join(pl.dir, "user-data") }
func (pl place) auth() string     { return filepath.Join(pl.dir, "auth") }
func (pl place) trash() string {
	return filepath.Join(pl.folder(), trashPrefix+pl.name+trashSuffix)
}

// lockName is the file that the instance's process holds locked while it lives.
const lockName = "lock"

// lockHolder is processlock.Holder of an instance's lock file. A link in its place was never locked by anybody.
func lockHolder(lock string) (pid int, held bool, err error) {
	pid, held, err = processlock.Holder(lock)
	if errors.Is(err, syscall.ELOOP) {
		return 0, false, nil
	}
	return pid, held, err
}

// trashed returns the instance's name if entry is the name of a directory that is being removed.
func trashed(entry string) (string, bool) {
	name, found := strings.CutSuffix(strings.TrimPrefix(entry, trashPrefix), trashSuffix)
	return name, found && strings.HasPrefix(entry, trashPrefix) && instanceName.MatchString(name)
}

// makeFolder makes the zone's folder. It refuses a state directory that others can write: they could name the process
// that we then signal, and read what we write.
func (p *Provider) makeFolder(pl place) error {
	if err := os.MkdirAll(pl.folder(), 0o700); err != nil {
		return err
	}
	for _, dir := range []string{p.opts.StateDir, pl.folder()} {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
			return fmt.Errorf("%s belongs to another user: %w", dir, syscall.EPERM)
		}
		if !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%s must be a directory that only its owner can write (chmod go-w): %w", dir, syscall.EPERM)
		}
	}
	return nil
}
