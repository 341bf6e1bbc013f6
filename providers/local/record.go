// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/proxy-operator/proxy-operator/providers"
)

// record is what an instance is made from and carries. It is written whole before the process starts.
type record struct {
	Account string            `json:"account"`
	Zone    string            `json:"zone,omitempty"`
	Name    string            `json:"name"`
	Tags    providers.Tags    `json:"tags"`
	Labels  map[string]string `json:"labels,omitempty"`
	Address string            `json:"address"`
	Port    int32             `json:"port"`
	// Auth tells that the process must ask for credentials, so that one whose files are lost never serves without.
	Auth      bool      `json:"auth"`
	CreatedAt time.Time `json:"createdAt"`
	// DeletingSince is set once Delete was accepted.
	DeletingSince time.Time `json:"deletingSince,omitzero"`
}

// recordLimit is far above the size of any record.
const recordLimit = 1 << 20

// errNoRecord tells of a directory whose record isn't there or isn't whole: what a crash in the middle of a create
// leaves, or a disk or a hand that lost it. It is no instance. Every version must therefore be able to read what older
// and newer ones wrote.
var errNoRecord = errors.New("no complete record")

func (r record) deleting() bool { return !r.DeletingSince.IsZero() }

// of reports whether the record is that of t's machine.
func (r record) of(t providers.Tags) bool {
	return r.Tags.ManagedBy == t.ManagedBy && r.Tags.Installation == t.Installation &&
		r.Tags.OwnerUID == t.OwnerUID && r.Tags.Incarnation == t.Incarnation
}

func (r record) complete(pl place) bool {
	return r.Name == pl.name && r.Zone == pl.zone && r.Account != "" && r.Address != "" && r.Port > 0 &&
		r.Tags.Complete()
}

// readRecord returns the record of a place: errNoRecord where the directory has none, fs.ErrNotExist where there is no
// directory.
func readRecord(pl place) (record, error) {
	raw, err := readRegular(pl.record())
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Lstat(pl.dir); statErr != nil {
			return record{}, statErr
		}
		return record{}, errNoRecord
	}
	if errors.Is(err, fs.ErrPermission) {
		if _, statErr := os.Lstat(pl.record()); statErr == nil {
			return record{}, errNoRecord // the file alone is closed to us, who made it readable
		}
	}
	if err != nil {
		return record{}, err
	}
	var r record
	if json.Unmarshal(raw, &r) != nil || !r.complete(pl) {
		return record{}, errNoRecord
	}
	return r, nil
}

// readRegular reads a regular file; anything else under the name is errNoRecord. A FIFO doesn't make it wait.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // #nosec G304 -- the path is made from checked names
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, errNoRecord // a link, a socket
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > recordLimit {
		return nil, errNoRecord
	}
	return io.ReadAll(f)
}

// writeRecord makes the record durable before it returns, so that no crash of the machine leaves a process, or a bill,
// that no record tells of.
func writeRecord(pl place, r record) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	tmp := pl.record() + ".tmp"
	if err := writeFile(tmp, string(raw)+"\n"); err != nil {
		return err
	}
	if err := os.Rename(tmp, pl.record()); err != nil {
		return err
	}
	return errors.Join(syncDir(pl.dir), syncDir(pl.folder()))
}

// writeFile writes a file that only its owner reads, and makes it durable.
func writeFile(path, content string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) // #nosec G304 -- the path is made from checked names
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) // #nosec G304 -- the path is made from checked names
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeInputs stores the user data and the credentials. They never pass through arguments or environment, which other
// users of the machine can read.
func writeInputs(pl place, req providers.CreateRequest) error {
	if err := writeFile(pl.userData(), req.UserData); err != nil {
		return fmt.Errorf("write user data: %w", err)
	}
	if req.Username == "" {
		return nil
	}
	if err := os.MkdirAll(pl.auth(), 0o700); err != nil {
		return err
	}
	return errors.Join(
		writeFile(filepath.Join(pl.auth(), "username"), req.Username),
		writeFile(filepath.Join(pl.auth(), "password"), req.Password),
		syncDir(pl.auth()),
	)
}
