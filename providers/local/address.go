// SPDX-License-Identifier: Apache-2.0

package local

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/proxy-operator/proxy-operator/providers"
)

// addressTries bounds the search for a free address: after so many the port is taken on all of them, as by a server that
// listens on 0.0.0.0.
const addressTries = 8

// choose picks the address and port of a new instance: its own address in 127/8 with the port that was asked for, and
// where that can't be a port of its own. The caller holds the lock of the state directory.
func (p *Provider) choose(name string, port int32) (string, int32, error) {
	taken, err := p.addresses()
	if err != nil {
		return "", 0, err
	}
	var last string
	for try := range addressTries {
		addr := loopback(name, try)
		if taken[addr] {
			continue
		}
		_, err := probe(addr, port)
		if err == nil {
			return addr, port, nil
		}
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			return freePort("127.0.0.1") // macOS has just this one
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return "", 0, portError(port, err)
		}
		last = addr
	}
	if last == "" {
		return "", 0, errors.New("no address in 127/8 is free") // every try met a record: not before thousands of instances
	}
	return freePort(last)
}

// loopback derives an address from the instance's name, so that it is the same when a create is repeated. 127.0/16 is
// left to others.
func loopback(name string, try int) string {
	sum := sha256.Sum256([]byte(name + "/" + strconv.Itoa(try)))
	return netip.AddrFrom4([4]byte{127, 1 + sum[0]%254, sum[1], 1 + sum[2]%254}).String()
}

// addresses lists those of all instances in the state directory, whoever made them.
func (p *Provider) addresses() (map[string]bool, error) {
	taken := map[string]bool{}
	places, err := p.scan()
	if err != nil {
		return nil, err
	}
	for _, pl := range places {
		r, err := readRecord(pl)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, errNoRecord) {
			continue
		}
		if err != nil { // should the address be in use, the probe tells
			p.opts.Log.Error(err, "Read record for its address", "instance", pl.name)
			continue
		}
		taken[r.Address] = true
	}
	return taken, nil
}

// probe tells whether addr and port can be listened on, and with port 0 which port is free there.
func probe(addr string, port int32) (int32, error) {
	// No context: a listen on loopback never waits.
	l, err := net.Listen("tcp4", net.JoinHostPort(addr, strconv.Itoa(int(port)))) //nolint:noctx // see above
	if err != nil {
		return 0, err
	}
	got := l.Addr().(*net.TCPAddr).Port
	return int32(got), l.Close() // #nosec G115 -- a port is below 65536
}

func freePort(addr string) (string, int32, error) {
	port, err := probe(addr, 0)
	return addr, port, err
}

// portError names the field where the port alone is at fault.
func portError(port int32, err error) error {
	if !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("listen on port %d: %w", port, err)
	}
	return &providers.Error{
		Class: providers.Denied, Op: opCreate, Code: errnoCode(err), Field: "spec.port",
		Want: "use a port above 1023, or run the operator with the right to listen below", Err: err,
	}
}

// scan lists the places of all instances in the state directory, in order.
func (p *Provider) scan() ([]place, error) {
	var places []place
	err := p.eachEntry(func(zone, entry string) {
		if instanceName.MatchString(entry) {
			places = append(places, p.place(zone, entry))
		}
	})
	return places, err
}

// eachEntry walks the directories of the zone folders. A state directory or folder that isn't there is empty: it is made
// with the first instance.
func (p *Provider) eachEntry(visit func(zone, entry string)) error {
	folders, err := os.ReadDir(p.opts.StateDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, f := range folders {
		if !f.IsDir() || !label.MatchString(f.Name()) {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(p.opts.StateDir, f.Name()))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if e.IsDir() {
				visit(zoneOf(f.Name()), e.Name())
			}
		}
	}
	return nil
}
