// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metadataclient "k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// door stands between providers and the API server, and lets things go wrong there.
type door struct {
	late sync.WaitGroup // requests that take effect later

	mu      sync.Mutex
	steps   int // until at is called
	at      func()
	faults  []*fault
	pages   []*pageFault
	told    []string // ?timeout= of the requests
	refusal *http.Response
	text    string
}

// pageFault answers the nth page of pods.
type pageFault struct {
	n, code int
	body    string
}

func (d *door) answerPage(n, code int, body string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages = append(d.pages, &pageFault{n, code, body})
}

func (d *door) timeouts() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told
}

// fault is what happens to the next request of a kind.
type fault struct {
	method, resource string
	lose             bool
	delay            time.Duration
	answer           func() *http.Response // instead of the API server's
}

// into puts the door into a provider.
func (d *door) into(o *Options) {
	o.Cluster = rest.CopyConfig(o.Cluster)
	o.Cluster.Wrap(func(rt http.RoundTripper) http.RoundTripper { return passage{d, rt} })
}

type passage struct {
	door *door
	next http.RoundTripper
}

var errLost = errors.New("the connection broke")

func (p passage) RoundTrip(r *http.Request) (*http.Response, error) {
	p.door.step()
	if answer := p.door.refused(r); answer != nil {
		return answer, nil
	}
	f := p.door.take(r)
	switch {
	case f == nil:
		res, err := p.next.RoundTrip(r)
		p.door.step()
		return res, err
	case f.answer != nil:
		return f.answer(), nil
	case f.delay > 0:
		return nil, p.later(r, f.delay)
	}
	res, err := p.next.RoundTrip(r)
	if err == nil {
		_ = res.Body.Close()
	}
	return nil, errors.Join(err, errLost)
}

// later sends the request after its caller has given up.
func (p passage) later(r *http.Request, d time.Duration) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	again := r.Clone(context.WithoutCancel(r.Context()))
	again.Body = io.NopCloser(bytes.NewReader(body))
	p.door.late.Go(func() {
		<-clock.RealClock{}.After(d)
		if res, err := p.next.RoundTrip(again); err == nil {
			_ = res.Body.Close()
		}
	})
	return context.DeadlineExceeded
}

func (d *door) step() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == nil {
		return
	}
	if d.steps--; d.steps < 0 {
		d.at()
		d.at = nil
	}
}

func (d *door) interrupt(step int, f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps, d.at = step, f
}

func (d *door) interrupted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	happened := d.at == nil
	d.at = nil
	return happened
}

func (d *door) add(f *fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, f)
}

func (d *door) lose(method, resource string) {
	d.add(&fault{method: method, resource: resource, lose: true})
}

func (d *door) delay(method, resource string, by time.Duration) {
	d.add(&fault{method: method, resource: resource, delay: by})
}

// answer lets the next request of a kind be answered so.
func (d *door) answer(method, resource string, code int, body string) {
	d.add(&fault{method: method, resource: resource, answer: func() *http.Response { return response(code, "", body) }})
}

// take returns the fault that the request meets; it is over with that.
func (d *door) take(r *http.Request) *fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := r.URL.Query(); q.Has("timeout") {
		d.told = append(d.told, q.Get("timeout"))
	}
	if len(d.pages) > 0 && r.Method == http.MethodGet && r.URL.Query().Has("limit") && strings.HasSuffix(r.URL.Path, "/"+pods) {
		if f := d.pages[0]; f.n <= 1 {
			d.pages = d.pages[1:]
			return &fault{answer: func() *http.Response { return response(f.code, "", f.body) }}
		}
		d.pages[0].n--
	}
	for n, f := range d.faults {
		if f.method == r.Method && strings.Contains(r.URL.Path+"/", "/"+f.resource+"/") {
			d.faults = append(d.faults[:n:n], d.faults[n+1:]...)
			return f
		}
	}
	return nil
}

func (d *door) failPage(page int) { d.answerPage(page, 500, "etcd has a bad day") }

// refuse returns the switch of an answer that every request gets.
func (d *door) refuse(code int, retryAfter, body string) func(bool) {
	return func(on bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.refusal = nil; on {
			d.refusal, d.text = response(code, retryAfter, body), body
		}
	}
}

func (d *door) refused(*http.Request) *http.Response {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refusal == nil {
		return nil
	}
	answer := *d.refusal
	answer.Body = io.NopCloser(strings.NewReader(d.text))
	return &answer
}

func response(code int, retryAfter, body string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	if !strings.HasPrefix(body, "{") {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// objects lists the metadata of a kind, past the provider.
func objects(ctx context.Context, kind, selector string) ([]metav1.PartialObjectMetadata, error) {
	c, err := metadataclient.NewForConfig(cluster.config)
	if err != nil {
		return nil, err
	}
	list, err := c.Resource(corev1.SchemeGroupVersion.WithResource(kind)).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// setQuota puts a ResourceQuota that is used up into force in a namespace, or takes it away, and waits until the API server
// heeds it. No controller counts here, so its status is written by hand.
func setQuota(t testing.TB, ns string, on bool, hard corev1.ResourceList) {
	t.Helper()
	quotas := cluster.admin.CoreV1().ResourceQuotas(ns)
	if on {
		q, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
		require.NoError(t, err)
		q.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard}
		_, err = quotas.UpdateStatus(t.Context(), q, metav1.UpdateOptions{})
		require.NoError(t, err)
	} else {
		require.NoError(t, quotas.Delete(t.Context(), "full", metav1.DeleteOptions{}))
	}
	trial := buildPod("trial", ownImage, requestOf("trial", in(ns)))
	require.Eventually(t, func() bool {
		_, err := cluster.admin.CoreV1().Pods(ns).Create(t.Context(), trial, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err) == on && (on || err == nil) && !strings.Contains(errText(err), "status unknown")
	}, patience, glance)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
