// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/providers"
)

func TestConfiguration(t *testing.T) {
	cases := map[string]struct {
		why, section, want string
		zones              []string
	}{
		"the state directory has a default":          {why: "cmd knows one", section: "{}"},
		"zones keep their order":                     {why: "it is the order of preference", section: "{zones: [b, a]}", zones: []string{"b", "a"}},
		"a relative state directory is refused":      {why: "it would move with the working directory", section: "{stateDir: x}", want: "line 4: accounts[0].local.stateDir: \"x\" must be an absolute path"},
		"a zone that is no name is refused":          {why: "it becomes a directory", section: "{zones: [../x]}", want: "accounts[0].local.zones: \"../x\" must be"},
		"a zone named as the zoneless folder":        {why: "their instances would mix", section: "{zones: [default]}", want: "is kept for accounts without zones"},
		"a zone that is listed twice is refused":     {why: "it is a mistake", section: "{zones: [a, a]}", want: "\"a\" is listed twice"},
		"a field that doesn't exist is refused":      {why: "it is a typing error", section: "{statedir: /x}", want: "statedir: is not a field; known here: stateDir, zones"},
		"a state directory of a wrong type is named": {why: "the line helps", section: "{stateDir: [1]}", want: "accounts[0].local.stateDir"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			doc := "accounts:\n- name: here\n  type: local\n  local: " + tc.section + "\n"
			o := Options{Binary: "/bin/true", StateDir: "/var/lib/proxy-operator", Clock: clock.RealClock{}, Log: logr.Discard()}
			reg, err := providers.ParseConfig([]byte(doc), map[string]providers.Factory{"local": Factory(o)})
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want, tc.why)
				return
			}
			require.NoError(t, err, tc.why)
			require.Equal(t, tc.zones, reg["here"].Zones, tc.why)
		})
	}
}

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		why   string
		zones []string
		edit  func(*providers.CreateRequest)
		field string
	}{
		"HTTP on a port is fine":                   {why: "this is what it serves", edit: func(*providers.CreateRequest) {}},
		"an image is refused":                      {why: "there is no container", edit: func(r *providers.CreateRequest) { r.Image = "squid:6" }, field: "spec.image"},
		"a pod section is refused":                 {why: "there is no pod", edit: func(r *providers.CreateRequest) { r.Pod = &providers.Pod{} }, field: "spec.kubernetes"},
		"SOCKS5 is refused":                        {why: "it isn't served", edit: func(r *providers.CreateRequest) { r.Protocol = "SOCKS5" }, field: "spec.protocol"},
		"HTTPS is refused":                         {why: "it isn't served", edit: func(r *providers.CreateRequest) { r.Protocol = "HTTPS" }, field: "spec.protocol"},
		"port 0 is refused":                        {why: "the API doesn't let it through", edit: func(r *providers.CreateRequest) { r.Port = 0 }, field: "spec.port"},
		"port 65536 is refused":                    {why: "the API doesn't let it through", edit: func(r *providers.CreateRequest) { r.Port = 65536 }, field: "spec.port"},
		"a zone where there are none is refused":   {why: "it can't be acted on", edit: func(r *providers.CreateRequest) { r.Key.Zone = "a" }, field: "spec.location.zones"},
		"a zone of the account is fine":            {why: "it is one", zones: []string{"a", "b"}, edit: func(r *providers.CreateRequest) { r.Key.Zone = "b" }},
		"another zone is refused":                  {why: "it can't be acted on", zones: []string{"a", "b"}, edit: func(r *providers.CreateRequest) { r.Key.Zone = "c" }, field: "spec.location.zones"},
		"no zone where there are some is refused":  {why: "the core chooses one", zones: []string{"a"}, edit: func(*providers.CreateRequest) {}, field: "spec.location.zones"},
		"a username with a colon is refused":       {why: "Basic can't carry it", edit: func(r *providers.CreateRequest) { r.Username, r.Password = "a:b", "c" }, field: "spec.auth.secretRef"},
		"a password without a username is refused": {why: "it would serve without any", edit: func(r *providers.CreateRequest) { r.Password = "c" }, field: "spec.auth.secretRef"},
		"a line break at the end is fine":          {why: "an editor leaves it", edit: func(r *providers.CreateRequest) { r.Username, r.Password = "a", "b\n" }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := newProvider(account, tc.zones, Options{StateDir: "/nonexistent", Clock: clock.RealClock{}})
			req := request("u")
			tc.edit(&req)
			err := p.Check(req)
			if tc.field == "" {
				require.NoError(t, err, tc.why)
				return
			}
			var e *providers.Error
			require.ErrorAs(t, err, &e, tc.why)
			require.Equal(t, providers.Permanent, e.Class)
			require.Equal(t, tc.field, e.Field)
			_, err = p.Create(t.Context(), req)
			require.ErrorAs(t, err, &e, "Create refuses what Check refuses")
		})
	}
}

func TestANameThatLeadsOutOfTheDirectoryIsRefused(t *testing.T) {
	dir := stateDir(t)
	req := request("u")
	req.Name = "../../etc"
	_, err := provider(t, dir).Create(t.Context(), req)
	require.True(t, providers.Is(err, providers.Permanent), err)
	require.NoDirExists(t, dir)
}

func TestLifeOfAnInstance(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	req := request("one")
	req.UserData, req.Username, req.Password = "#cloud-config\n", "alice", "s3cret"
	req.Labels = map[string]string{"team": "crawl"}

	inst := create(t, p, req)
	require.Contains(t, []providers.InstanceState{providers.StateProvisioning, providers.StateRunning}, inst.State)
	require.Equal(t, "here://"+req.Name, inst.Ref.String())
	require.Equal(t, req.Tags, inst.Tags)
	require.NotZero(t, inst.CreatedAt)

	inst = await(t, p, inst.Ref, providers.StateRunning)
	conn, err := net.Dial("tcp", net.JoinHostPort(inst.IP, strconv.Itoa(int(inst.Port))))
	require.NoError(t, err, "Running means that it accepts")
	require.NoError(t, conn.Close())
	require.Equal(t, []providers.Instance{inst}, list(t, p))

	requireKept(t, filepath.Join(dir, "default", req.Name), map[string]string{
		"user-data": "#cloud-config\n", "auth/username": "alice", "auth/password": "s3cret",
	})
	raw, err := os.ReadFile(filepath.Join(dir, "default", req.Name, "record.json"))
	require.NoError(t, err)
	require.Contains(t, string(raw), `"team": "crawl"`)
	require.NotContains(t, string(raw), "s3cret")

	again := create(t, p, req)
	require.Equal(t, inst, again, "a repeat is answered with the instance as it is now")

	require.NoError(t, p.Delete(t.Context(), inst.Ref))
	awaitGone(t, p, inst.Ref)
	require.True(t, providers.Is(p.Delete(t.Context(), inst.Ref), providers.NotFound))
	require.Empty(t, list(t, p))
	require.Empty(t, leftovers(t, dir), "nothing is left on disk")
}

// requireKept checks content and mode of an instance's files.
func requireKept(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, content, string(raw))
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
		parent, err := os.Stat(filepath.Dir(filepath.Join(dir, name)))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), parent.Mode().Perm(), name)
	}
}

func TestZonesArePartOfTheRef(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	p.zones = []string{"a", "b"}
	req := request("zoned")
	req.Key.Zone = "b"
	req.Name = req.Key.Name()
	inst := create(t, p, req)
	require.Equal(t, "b/"+req.Name, inst.Ref.Path)
	require.Equal(t, "b", inst.Zone)

	after := provider(t, dir) // the account has lost its zones
	require.Equal(t, inst.Ref, await(t, after, inst.Ref, providers.StateRunning).Ref)
	require.Len(t, list(t, after), 1)
	_, err := after.Get(t.Context(), providers.Ref{Account: account, Path: req.Name})
	require.True(t, providers.Is(err, providers.NotFound), "the zone is part of the place")
	awaitGone(t, after, inst.Ref)
}

func TestRefsThatNameNothing(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	inst := create(t, p, request("bystander"))
	outside := filepath.Join(filepath.Dir(dir), "px-aaaaaaaaaaaaaaaaaaaaaaaa")
	require.NoError(t, os.Mkdir(outside, 0o700))
	cases := map[string]struct {
		why  string
		ref  providers.Ref
		want providers.ErrorClass
	}{
		"another account":               {"not ours to answer for", providers.Ref{Account: "other", Path: inst.Name}, providers.Permanent},
		"an unknown name":               {"it is gone", providers.Ref{Account: account, Path: request("unknown").Name}, providers.NotFound},
		"the parent directory":          {"never made by us", providers.Ref{Account: account, Path: "../.."}, providers.NotFound},
		"a good name outside":           {"never made by us", providers.Ref{Account: account, Path: "../px-aaaaaaaaaaaaaaaaaaaaaaaa"}, providers.NotFound},
		"a good name far outside":       {"never made by us", providers.Ref{Account: account, Path: "default/../../px-aaaaaaaaaaaaaaaaaaaaaaaa"}, providers.NotFound},
		"the zone folder":               {"never made by us", providers.Ref{Account: account, Path: "default"}, providers.NotFound},
		"an empty path":                 {"never made by us", providers.Ref{Account: account}, providers.NotFound},
		"an instance in a zone not its": {"the place is part of the locator", providers.Ref{Account: account, Path: "a/" + inst.Name}, providers.NotFound},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.True(t, providers.Is(p.Delete(t.Context(), tc.ref), tc.want), tc.why)
			_, err := p.Get(t.Context(), tc.ref)
			require.True(t, providers.Is(err, tc.want), tc.why)
			require.DirExists(t, outside)
		})
	}
	await(t, p, inst.Ref, providers.StateRunning)
}

func TestInstancesOfOthersAreLeftAlone(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	inst := create(t, p, request("theirs"))

	found, err := p.ListByTag(t.Context(), providers.Selector{Installation: "installation-two"})
	require.NoError(t, err)
	require.Empty(t, found)
	found, err = p.ListByTag(t.Context(), providers.Selector{})
	require.NoError(t, err)
	require.Empty(t, found, "a selector without installation matches nothing")

	req := request("theirs")
	req.Tags.Installation = "installation-two"
	_, err = p.Create(t.Context(), req)
	var e *providers.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, providers.CodeNameConflict, e.Code)

	other := newProvider("other", nil, p.opts) // another account on the same state directory
	require.Empty(t, list(t, other))
	_, err = other.Get(t.Context(), providers.Ref{Account: "other", Path: inst.Name})
	require.True(t, providers.Is(err, providers.NotFound))
	require.True(t, providers.Is(other.Delete(t.Context(), providers.Ref{Account: "other", Path: inst.Name}), providers.NotFound))
	await(t, p, inst.Ref, providers.StateRunning)
}

func TestFilesThatAreNotInstancesAreLeftAlone(t *testing.T) {
	dir := stateDir(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "default", "photos"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "default", "photos", "cat.jpg"), []byte("cat"), 0o600))
	require.Empty(t, list(t, provider(t, dir)))
	require.FileExists(t, filepath.Join(dir, "default", "photos", "cat.jpg"))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "default", "photos")))
}

func TestStateDirectoriesThatOthersCanWriteAreRefused(t *testing.T) {
	dir := stateDir(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Chmod(dir, 0o777)) // #nosec G302 -- this is the point
	_, err := provider(t, dir).Create(t.Context(), request("u"))
	require.True(t, providers.Is(err, providers.Denied), err)
	require.ErrorContains(t, err, "chmod go-w")
	require.Empty(t, leftovers(t, dir))
}

func TestAddressesAreTheInstancesOwn(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	seen := map[string]bool{}
	for i := range 4 {
		inst := create(t, p, request(fmt.Sprint("fleet-", i)))
		at := net.JoinHostPort(inst.IP, strconv.Itoa(int(inst.Port)))
		require.False(t, seen[at], at)
		seen[at] = true
		if inst.IP != "127.0.0.1" {
			require.Equal(t, int32(3128), inst.Port)
			require.False(t, strings.HasPrefix(inst.IP, "127.0."), inst.IP)
		}
	}
}

func TestAnAddressThatIsTakenIsPassedOver(t *testing.T) {
	dir := stateDir(t)
	p := provider(t, dir)
	req := request("crowded")
	first, port, err := p.choose(req.Name, req.Port)
	require.NoError(t, err)
	squatter, err := net.Listen("tcp", net.JoinHostPort(first, strconv.Itoa(int(port))))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, squatter.Close()) })

	inst := await(t, p, create(t, p, req).Ref, providers.StateRunning)
	require.NotEqual(t, squatter.Addr().String(), net.JoinHostPort(inst.IP, strconv.Itoa(int(inst.Port))))
}

func TestAPortThatIsTakenOnAllAddressesIsReplacedByAFreeOne(t *testing.T) {
	dir := stateDir(t)
	squatter, err := net.Listen("tcp4", "0.0.0.0:0") //nolint:gosec // it must be in the way everywhere
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, squatter.Close()) })
	req := request("squeezed")
	req.Port = int32(squatter.Addr().(*net.TCPAddr).Port) // #nosec G115 -- a port is below 65536
	p := provider(t, dir)
	inst := await(t, p, create(t, p, req).Ref, providers.StateRunning)
	require.NotEqual(t, req.Port, inst.Port)
	require.Positive(t, inst.Port)
}
