// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/controllers"
	"github.com/proxy-operator/proxy-operator/internal/sim/api"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

const (
	namespace    = "crawl"
	installation = "ours"
	theirs       = "theirs" // another installation that shares the accounts
	secretName   = "boot"
	secretKey    = "user-data"
	// secretMark is in every secret byte, and in nothing else.
	secretMark = "hush-hush"
)

// accounts of the operator's configuration.
var accounts = []string{"cloud", "other"}

// start is when every run begins.
var start = time.Date(2026, 8, 7, 12, 0, 0, 0, time.UTC)

func profile(name string) (cloud.Profile, bool) {
	for _, p := range cloud.Profiles() {
		if p.Name == name {
			return p, true
		}
	}
	return cloud.Profile{}, false
}

// Failure is a law that didn't hold.
type Failure struct {
	Law, Why string
	Step     int
}

// Seen is what a step of a run was, for the choice of faults that can strike there.
type Seen struct {
	Op    Op
	Alive bool // a machine of the first Proxy lives
	Sweep bool // of a sweep for orphans
}

type strike struct {
	Happening
	struck bool
}

type timed struct {
	at time.Time
	do func()
}

// World is one run.
type World struct {
	plan    Plan
	mutant  *Mutant
	verbose bool
	metrics *controllers.Metrics
	sweeps  *controllers.OrphanMetrics

	clock   *clocktesting.FakePassiveClock
	api     *api.Server
	cloud   *cloud.Cloud
	profile cloud.Profile
	procs   []*process
	born    int // processes so far
	planned []timed

	step    int
	current *call
	users   []strike
	between bool      // two calls: something happens by itself
	lastAct int       // step of the newest act of a user
	lifted  time.Time // when a user last changed what machines are made from
	faults  []strike
	struck  time.Time // when the last fault struck
	over    time.Time // when the effects of all faults so far end
	changed time.Time // when an act, a fault or the operator last changed something
	came    bool      // all acts and faults came
	calm    time.Time // when the last fault, or its effect, ends
	apiDown time.Time
	denied  time.Time // until then the API server forbids everything
	gets404 time.Time // until then every Get of a machine says NotFound
	refused time.Time // until then every create is refused
	blind   time.Time // until then no read shows a machine

	made     map[string]*making
	runs     map[providers.Ref]time.Time // since when each machine runs
	told     map[reading]time.Time       // when the cloud last said that a machine runs at an address
	all      []providers.Instance        // as they are after the newest step, but for those of others
	foreign  []providers.Ref             // machines of others, however they are labelled
	others   int                         // of them, those that live
	wiped    int                         // step at which a user wiped the ledger or the finalizer
	wipedAt  time.Time                   // and when
	beyond   string                      // what can't be met, and happened here
	orphans  map[string]string           // UIDs of Proxies that went while nobody could know of their machines: why
	left     string                      // why a machine was without its Proxy; empty: none was
	planted  int                         // orphans that were there before
	copied   int                         // machines of others with our labels
	vanished bool                        // a Proxy went in the moment of a finalizer
	unheld   map[string]unheld           // by UID of the Proxy
	away     map[string]bool             // UIDs of Proxies that the API server has lost for a while

	probes probing

	noted     time.Time // when a sweep was last stopped
	confirmed time.Time // when a person last agreed to one

	checks   []checking
	letGo    map[string]bool // UIDs of Proxies that a user abandoned
	ready    int             // step at which the first Proxy was first Ready
	hadTwins bool
	quiet    bool // the quiet hour has begun
	settled  int  // step at which it began
	ops      []Seen
	failure  *Failure
	hash     uint64
	trace    []string
	spoken   []string // events and logs, for the law of secrets; reset by it
}

// making is what is known of the creates of one name.
type making struct {
	request        providers.CreateRequest
	at             time.Time // of the intent
	sent, answered int
	skew           Duration // of the clock that is the furthest behind of those that sent it
	served         bool     // a request got through it
	astray         bool     // sent by a clock that another process's is more than a minute ahead of, which counts the deadline
}

// reading is a machine that runs at an address, as an answer tells of it.
type reading struct {
	ref providers.Ref
	ip  string
}

// Lab is what runs of one goroutine share.
type Lab struct {
	metrics *controllers.Metrics
	orphans *controllers.OrphanMetrics
}

// NewLab makes a Lab.
func NewLab() (*Lab, error) {
	m, err := controllers.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	o, err := controllers.NewOrphanMetrics(prometheus.NewRegistry())
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &Lab{metrics: m, orphans: o}, nil
}

func (l *Lab) world(p Plan, m *Mutant, verbose bool) *World {
	prof, _ := profile(p.Cloud)
	w := &World{
		plan: p, mutant: m, verbose: verbose, metrics: l.metrics, sweeps: l.orphans, profile: prof,
		clock: clocktesting.NewFakePassiveClock(start), made: map[string]*making{}, told: map[reading]time.Time{}, calm: start,
		letGo: map[string]bool{}, runs: map[providers.Ref]time.Time{}, orphans: map[string]string{}, away: map[string]bool{}, unheld: map[string]unheld{},
	}
	w.probes = probing{
		ills: map[providers.Ref]illness{}, lossy: map[providers.Ref]int{}, asked: map[providers.Ref]int{}, answered: map[providers.Ref]time.Time{},
		untold: map[providers.Ref]time.Time{},
	}
	w.api = api.NewServer(w.clock)
	w.cloud = cloud.New(prof, w.clock, p.Seed)
	w.cloud.SetDoor(w.cloudDoor)
	for _, h := range p.Users {
		w.users = append(w.users, strike{Happening: h})
	}
	for _, h := range p.Faults {
		w.faults = append(w.faults, strike{Happening: h})
	}
	for _, law := range laws() {
		w.checks = append(w.checks, checking{law, law.start()})
	}
	w.populate()
	w.procs = []*process{w.process(0)}
	return w
}

// populate makes what is there before the operator starts.
func (w *World) populate() {
	ctx, c := context.Background(), w.api.Client()
	objects := []*corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretName}, Data: map[string][]byte{secretKey: []byte("#cloud-config\n# " + secretMark + " 0")},
	}}
	for _, o := range objects {
		w.must(c.Create(ctx, o))
	}
	for n := range max(1, w.plan.Objects) {
		w.must(c.Create(ctx, newProxy(objectName(n))))
	}
	w.populateOthers()
}

func objectName(n int) string {
	if n == 0 {
		return "a"
	}
	return fmt.Sprintf("a%d", n)
}

func newProxy(name string) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.ProxySpec{
			Provider: accounts[0], CloudInit: &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: secretName, Key: secretKey}},
		},
	}
}

func (w *World) zones() []string {
	if len(w.profile.Zones) == 0 {
		return []string{""}
	}
	return w.profile.Zones
}

// must is for what can't fail in a model; if it does, the run is no proof.
func (w *World) must(err error) {
	if err != nil {
		w.fails("model", err.Error())
	}
}

// note adds a line to the trace and its hash.
func (w *World) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	h := fnv.New64a()
	_, _ = h.Write([]byte(line))
	w.hash = w.hash*0x100000001b3 ^ h.Sum64()
	if w.verbose {
		w.trace = append(w.trace, line)
	}
}

func (w *World) now() time.Time { return w.clock.Now() }

func (w *World) since() string { return w.now().Sub(start).Round(time.Millisecond).String() }

// sleep lets time pass, and what is planned for it happen.
func (w *World) sleep(d Duration) { w.until(w.now().Add(d)) }

func (w *World) until(t time.Time) {
	for w.probesUntil(t); len(w.planned) > 0 && !w.planned[0].at.After(t); w.probesUntil(t) {
		next := w.planned[0]
		w.planned = w.planned[1:]
		if next.at.After(w.now()) {
			w.clock.SetTime(next.at)
		}
		w.between = true
		next.do()
		w.between = false
	}
	if t.After(w.now()) {
		w.clock.SetTime(t)
	}
}

// acted notes that a user did something. What happens by itself between two calls comes before the second.
func (w *World) acted() {
	w.lastAct = w.step
	if w.between {
		w.lastAct++
	}
}

// later plans what happens by itself.
func (w *World) later(d Duration, do func()) {
	w.planned = append(w.planned, timed{w.now().Add(d), do})
	slices.SortStableFunc(w.planned, func(a, b timed) int { return a.at.Compare(b.at) })
}

// ends puts off the calm that liveness is measured from.
func (w *World) ends(d Duration) {
	if t := w.now().Add(d); t.After(w.calm) {
		w.calm = t
	}
}

// first is the object that plans are about, as it is; nil if there is none.
func (w *World) first() *v1alpha1.Proxy {
	p, _ := w.api.Newest(api.Proxies, types.NamespacedName{Namespace: namespace, Name: "a"}).(*v1alpha1.Proxy)
	return p
}

// machineAlive reports whether a machine of the first Proxy lives.
func (w *World) machineAlive() bool {
	p := w.first()
	return p != nil && slices.ContainsFunc(w.all, func(i providers.Instance) bool { return owns(p, i) && i.State.Alive() })
}

func owns(p *v1alpha1.Proxy, i providers.Instance) bool {
	return i.Tags.Installation == installation && i.Tags.OwnerUID == string(p.UID)
}

// Trace is the run, line by line, if it was verbose.
func (w *World) Trace() string { return strings.Join(w.trace, "\n") }

// uids of all Proxies that ever were, in order.
func (w *World) uids() []string {
	var out []string
	for _, e := range w.api.History(api.Proxies) {
		if uid := string(e.Object.GetUID()); !slices.Contains(out, uid) {
			out = append(out, uid)
		}
	}
	return out
}
