// SPDX-License-Identifier: Apache-2.0

package providers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/proxy-operator/proxy-operator/providers"
)

// noon is when every test of the guards begins.
var noon = time.Date(2026, 8, 7, 12, 0, 0, 0, time.UTC)

// stub is a cloud that answers as it is told, and counts.
type stub struct {
	mu     sync.Mutex
	traits providers.Traits
	err    error                 // of every call
	list   []providers.Instance  // of every list
	during func()                // runs within every call
	with   func(context.Context) // gets every call's context
	calls  map[string]int        // that arrived, by method
}

func (s *stub) call(ctx context.Context, method string) error {
	s.mu.Lock()
	s.calls[method]++
	during, with := s.during, s.with
	s.mu.Unlock()
	if with != nil {
		with(ctx)
	}
	if during != nil {
		during()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *stub) Create(ctx context.Context, req providers.CreateRequest) (providers.Instance, error) {
	return machine(req), s.call(ctx, "create")
}

func (s *stub) Get(ctx context.Context, ref providers.Ref) (providers.Instance, error) {
	return providers.Instance{Ref: ref}, s.call(ctx, "get")
}

func (s *stub) Delete(ctx context.Context, _ providers.Ref) error { return s.call(ctx, "delete") }

func (s *stub) ListByTag(ctx context.Context, _ providers.Selector) ([]providers.Instance, error) {
	err := s.call(ctx, "list")
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list, err
}

func (s *stub) Traits() providers.Traits { return s.traits }

func (s *stub) Check(providers.CreateRequest) error { return errChecked }

var errChecked = errors.New("checked")

// bench is one guarded account on a clock of its own.
type bench struct {
	*providers.Guarded
	t       testing.TB
	cloud   *stub
	clock   *clocktesting.FakePassiveClock
	changes []providers.GateChange
}

func newBench(t testing.TB, o providers.GuardOptions) *bench {
	b := &bench{t: t, cloud: &stub{calls: map[string]int{}}, clock: clocktesting.NewFakePassiveClock(noon)}
	if o.Workers == 0 {
		o.Workers = 3
	}
	o.Clock = b.clock
	o.Report = func(_ context.Context, c providers.GateChange) { b.changes = append(b.changes, c) }
	b.Guarded = providers.NewGuarded("acme", b.cloud, o)
	return b
}

func (b *bench) pass(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

// answers sets what the cloud says from now on: yes where class is empty.
func (b *bench) answers(class providers.ErrorClass) {
	b.cloud.err = nil
	if class != "" {
		b.cloud.err = &providers.Error{Class: class, Op: "call"}
	}
}

// The calls of a Proxy, by its number.
func (b *bench) create(n int) error {
	_, err := b.Create(context.Background(), request(n, ""))
	return err
}

func (b *bench) get(n int) error {
	_, err := b.Get(context.Background(), refOf(n))
	return err
}

func (b *bench) delete(n int) error { return b.Delete(context.Background(), refOf(n)) }

func (b *bench) look() error {
	_, err := b.ListByTag(context.Background(), everything)
	return err
}

// goes and held check whether a call went or was refused, and why.
func (b *bench) goes(err error) {
	b.t.Helper()
	var e *providers.Error
	if errors.As(err, &e) {
		require.False(b.t, e.Held, "%v (%s)", err, e.RetryAfter)
	}
}

func (b *bench) held(err error, class providers.ErrorClass, code string, wait time.Duration) {
	b.t.Helper()
	var e *providers.Error
	require.ErrorAs(b.t, err, &e)
	require.True(b.t, e.Held, "%v", err)
	require.Equal(b.t, class, e.Class, "%v", err)
	require.Equal(b.t, code, e.Code, "%v", err)
	require.Equal(b.t, wait, e.RetryAfter, "%v", err)
	require.NotEmpty(b.t, e.Op)
}

var everything = providers.Selector{Installation: "inst"}

func refOf(n int) providers.Ref {
	return providers.Ref{Account: "acme", Path: fmt.Sprintf("z/%d", n)}
}

func request(n int, zone string) providers.CreateRequest {
	key := providers.Key{InstallationID: "inst", ProxyUID: fmt.Sprintf("uid-%d", n), Incarnation: 1, Account: "acme", Zone: zone}
	return providers.CreateRequest{Key: key, Name: key.Name(), Tags: providers.Tags{
		ManagedBy: providers.ManagedBy, Installation: "inst", OwnerUID: key.ProxyUID, Namespace: "ns", Name: "p", Incarnation: 1, SpecHash: "v1:x",
	}}
}

// machine is what a request makes.
func machine(req providers.CreateRequest) providers.Instance {
	return providers.Instance{
		Ref: providers.Ref{Account: req.Key.Account, Path: "z/" + req.Name}, Name: req.Name, Zone: req.Key.Zone, State: providers.StateRunning, Tags: req.Tags,
	}
}

func TestGuardsPassAnswersOn(t *testing.T) {
	b := newBench(t, providers.GuardOptions{})
	b.cloud.traits = providers.Traits{UniqueNames: true}
	i, err := b.Create(context.Background(), request(1, ""))
	require.NoError(t, err)
	require.Equal(t, machine(request(1, "")), i)
	i, err = b.Get(context.Background(), refOf(2))
	require.NoError(t, err)
	require.Equal(t, refOf(2), i.Ref)
	require.NoError(t, b.delete(3))
	b.cloud.list = []providers.Instance{{Name: "a"}}
	list, err := b.ListByTag(context.Background(), everything)
	require.NoError(t, err)
	require.Equal(t, b.cloud.list, list)
	require.ErrorIs(t, b.Check(request(1, "")), errChecked)
	require.Equal(t, map[string]int{"create": 1, "get": 1, "delete": 1, "list": 1}, b.cloud.calls)

	b.answers(providers.Denied)
	require.Equal(t, b.cloud.err, b.get(1), "the very error of the provider")
}

func TestEveryCallHasADeadline(t *testing.T) {
	cases := map[string]struct {
		why  string
		call func(*bench) error
		want time.Duration
	}{
		"a get":    {"a cloud that hangs must not hold a worker", func(b *bench) error { return b.get(1) }, 30 * time.Second},
		"a list":   {"a cloud that hangs must not hold a worker", (*bench).look, 30 * time.Second},
		"a delete": {"a cloud that hangs must not hold a worker", func(b *bench) error { return b.delete(1) }, 30 * time.Second},
		"a create": {"nothing may land after what Traits say", func(b *bench) error { return b.create(1) }, 45 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got time.Duration
			b := newBench(t, providers.GuardOptions{})
			b.cloud.traits.CallDeadline = 45 * time.Second
			b.Guarded = providers.NewGuarded("acme", b.cloud, providers.GuardOptions{
				Deadline: func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
					got = d
					return context.WithCancel(ctx)
				},
			})
			require.NoError(t, c.call(b))
			require.Equal(t, c.want, got, c.why)
		})
	}
	t.Run("without an option it is the machine's clock's", func(t *testing.T) {
		b := newBench(t, providers.GuardOptions{})
		has := false
		b.cloud.with = func(ctx context.Context) { _, has = ctx.Deadline() }
		require.NoError(t, b.get(1))
		require.True(t, has)
	})
}

func TestOneWorkerIsKeptFree(t *testing.T) {
	for workers, slots := range map[int]int{1: 1, 2: 1, 3: 2, 10: 9} {
		t.Run(fmt.Sprintf("%d workers have %d slots", workers, slots), func(t *testing.T) {
			b := newBench(t, providers.GuardOptions{Workers: workers})
			depth := 0
			b.cloud.during = func() {
				if depth++; depth < slots {
					b.goes(b.get(depth))
					return
				}
				require.Equal(t, slots, b.State().InFlight)
				b.held(b.get(100), providers.Throttled, providers.CodeBusy, 100*time.Millisecond)
				b.held(b.get(101), providers.Throttled, providers.CodeBusy, 150*time.Millisecond)
				b.held(b.delete(102), providers.Throttled, providers.CodeBusy, 100*time.Millisecond)
				b.held(b.Admit(request(103, "")), providers.Throttled, providers.CodeBusy, 150*time.Millisecond)
			}
			require.NoError(t, b.get(0))
			require.Equal(t, slots, depth)
			b.cloud.during = nil
			b.pass(time.Second)
			b.goes(b.get(100))
			require.Zero(t, b.State().InFlight)
		})
	}
}

func TestTheWeightiestReasonIsTold(t *testing.T) {
	full := func(b *bench) { // the last reason, and then one more each
		b.cloud.during = nil
		for n := range 3 {
			b.cloud.list = append(b.cloud.list, machine(request(1000+n, "")))
		}
		b.goes(b.look())
	}
	quota := func(b *bench) { b.answers(providers.QuotaExceeded); b.goes(b.create(1)) }
	broken := func(b *bench) {
		b.answers(providers.Transient)
		for n := range 5 {
			b.goes(b.get(n))
		}
	}
	throttled := func(b *bench) {
		b.cloud.during = func() { // it was under way when the circuit opened
			b.cloud.during = nil
			broken(b)
			b.answers(providers.Throttled)
		}
		b.goes(b.get(77))
	}
	cases := map[string]struct {
		why   string
		do    []func(*bench)
		class providers.ErrorClass
		code  string
		wait  time.Duration
	}{
		"the limit on machines before the rate": {"waiting for a token helps nothing", []func(*bench){full}, providers.QuotaExceeded, providers.CodeMaxInstances, time.Minute},
		"a gate before the limit on machines":   {"the cloud's no is a fact", []func(*bench){quota, full}, providers.QuotaExceeded, providers.CodeGateClosed, 5 * time.Minute},
		"the circuit before a gate":             {"nothing is sent at all", []func(*bench){quota, full, broken}, providers.Throttled, providers.CodeCircuitOpen, 30 * time.Second},
		"the cloud's wish before the circuit":   {"a probe would break it", []func(*bench){quota, full, throttled}, providers.Throttled, providers.CodeBackingOff, time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, providers.GuardOptions{Limits: providers.Limits{Burst: 50, MaxInstances: 3}, Workers: 5})
			require.NoError(t, b.look())
			for _, do := range c.do {
				do(b)
			}
			before := b.State()
			b.held(b.Admit(request(9, "")), c.class, c.code, c.wait)
			b.held(b.create(10), c.class, c.code, c.wait+extra(c.code))
			require.Equal(t, before.Refusals[c.code]+2, b.State().Refusals[c.code], c.why)
		})
	}
}

// extra is how much later the second create that waits for one moment is told to come.
func extra(code string) time.Duration {
	if code == providers.CodeMaxInstances {
		return 0
	}
	return 50 * time.Millisecond
}

func TestAPanicGivesTheSlotBack(t *testing.T) {
	b := newBench(t, providers.GuardOptions{Workers: 2})
	b.cloud.during = func() { panic("a bug in a provider") }
	for n := range 6 {
		require.Panics(t, func() { b.goes(b.create(n)) })
	}
	require.Zero(t, b.State().InFlight)
	require.False(t, b.State().CircuitOpen, "a bug of ours says nothing about the cloud")
	require.Empty(t, b.changes)
}

// TestGuardsFromManyGoroutines: whatever comes at once, no bound is broken and nothing is left over.
func TestGuardsFromManyGoroutines(t *testing.T) {
	clk := clocktesting.NewFakeClock(noon)
	cloud := &stub{calls: map[string]int{}, traits: providers.Traits{Lag: time.Hour}}
	var flying, most, reports atomic.Int64
	cloud.with = func(ctx context.Context) {
		n := flying.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		providers.CountCall(ctx)
		flying.Add(-1)
	}
	g := providers.NewGuarded("acme", cloud, providers.GuardOptions{
		Limits: providers.Limits{CallsPerSecond: 100, MaxInstances: 50}, Workers: 4, Clock: clk, Report: func(context.Context, providers.GateChange) { reports.Add(1) },
	})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := range 200 {
				ctx := context.Background()
				switch req := request(w*1000+n, ""); n % 6 {
				case 0:
					_, _ = g.ListByTag(ctx, everything)
				case 1:
					_ = g.Admit(req)
					_, _ = g.Create(ctx, req)
				case 2:
					_, _ = g.Get(ctx, refOf(n))
				case 3:
					_ = g.Delete(ctx, refOf(n))
				case 4:
					g.State()
				default:
					clk.Step(10 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(3))
	require.Zero(t, g.State().InFlight)
	require.Zero(t, reports.Load())
	require.LessOrEqual(t, cloud.calls["create"], 50)
	require.Positive(t, cloud.calls["create"])
	clk.Step(time.Hour)
	require.Equal(t, map[string]int{"reads": 0, "changes": 0}, g.State().Waiting, "who doesn't come back loses its place")
}
