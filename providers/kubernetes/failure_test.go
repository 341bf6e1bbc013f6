// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/proxy-operator/proxy-operator/providers"
)

// status is what the API server answers.
func status(code int, reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
}

// What the API server's admission says, in the words of its own and of common webhooks.
func TestRefusalsOfCreates(t *testing.T) {
	forbidden := func(message string) string { return status(403, "Forbidden", `pods "px-x" is forbidden: `+message) }
	cases := map[string]struct {
		why   string
		code  int
		body  string
		class providers.ErrorClass
		is    string // the code
		field string
	}{
		"a webhook says no": {
			"nothing helps but a change", 403, status(403, "Forbidden", `admission webhook "policy.example.com" denied the request: no`),
			providers.Permanent, codeAdmissionDenied, "",
		},
		"a webhook says no with 400": {"the same", 400, status(400, "BadRequest", `admission webhook "policy.example.com" denied the request: no`), providers.Permanent, codeAdmissionDenied, ""},
		"a policy says no":           {"the same", 422, status(422, "Invalid", `pods "px-x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`), providers.Permanent, codeAdmissionDenied, ""},
		"a policy says too large":    {"it isn't about the user data", 413, status(413, "RequestEntityTooLarge", `pods "px-x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`), providers.Permanent, codeAdmissionDenied, ""},
		"a webhook is too busy":      {"it asks to wait", 429, status(429, "TooManyRequests", `admission webhook "policy.example.com" denied the request: busy`), providers.Throttled, "TooManyRequests", ""},
		"two bounds of a LimitRange": {"our own request is one of them", 403, forbidden(`[maximum memory usage per Container is 16Mi, but request is 32Mi, maximum cpu usage per Pod is 5m, but request is 10m]`), providers.Permanent, codeLimitRange, "spec.kubernetes.resources.requests.memory"},
		"a ratio of a LimitRange":    {"the same", 403, forbidden(`cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000`), providers.Permanent, codeLimitRange, "spec.kubernetes.resources.requests.cpu"},
		"a LimitRange wants limits":  {"we write none", 403, forbidden(`maximum cpu usage per Pod is 1.  No limit is specified`), providers.Permanent, codeLimitRange, "spec.kubernetes.resources"},
		"a webhook doesn't answer":   {"it may have been another call that failed", 500, status(500, "InternalError", `failed calling webhook "policy.example.com"`), providers.Ambiguous, "InternalError", ""},
		"the Pod Security Standard": {
			"the cluster asks for more than restricted", 403, forbidden(`violates PodSecurity "restricted:latest": x`), providers.Permanent, codePodSecurity, "",
		},
		"the namespace's own ServiceAccount isn't there": {
			"in a new namespace it takes a moment", 403, forbidden(`error looking up service account crawl/default: serviceaccount "default" not found`),
			providers.Transient, codeServiceAccount, "",
		},
		"a quota that another create has just changed": {
			"it comes again at once", 409, status(409, "Conflict", `Operation cannot be fulfilled on resourcequotas "q"`), providers.Transient, "Conflict", "",
		},
		"no right":          {"an administrator must give it", 403, status(403, "Forbidden", `pods is forbidden: User "x" cannot create resource "pods" in API group "" in the namespace "crawl"`), providers.Denied, "Forbidden", ""},
		"no identity":       {"the same", 401, status(401, "Unauthorized", "Unauthorized"), providers.Denied, "Unauthorized", ""},
		"too large":         {"the user data is all that can be", 413, status(413, "RequestEntityTooLarge", "too large"), providers.Permanent, "RequestEntityTooLarge", "spec.cloudInit"},
		"busy":              {"it says so before it does anything", 429, status(429, "TooManyRequests", "busy"), providers.Throttled, "TooManyRequests", ""},
		"no time":           {"it may have been done", 504, status(504, "Timeout", "request did not complete"), providers.Ambiguous, "Timeout", ""},
		"unavailable":       {"it may have been done by a server behind", 503, status(503, "ServiceUnavailable", "x"), providers.Ambiguous, "ServiceUnavailable", ""},
		"a page of a proxy": {"nobody knows what came of it", 502, "bad gateway", providers.Ambiguous, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := &door{}
			d.answer("POST", pods, c.code, c.body)
			p := provider(t, d.into)
			_, err := p.Create(t.Context(), request(t))
			e := failure(t, err)
			require.Equal(t, c.class, e.Class, "%s: %v", c.why, err)
			if c.is != "" {
				require.Equal(t, c.is, e.Code, c.why)
			}
			require.Equal(t, c.field, e.Field, c.why)
			require.Equal(t, opCreate, e.Op)
			_, err = p.Get(t.Context(), providers.Ref{Account: account, Path: home + "/" + request(t).Name})
			require.True(t, providers.Is(err, providers.NotFound), "nothing was made: %v", err)
		})
	}
}

func TestAServiceAccountThatTheUserNamedIsTheUsersMistake(t *testing.T) {
	d := &door{}
	d.answer("POST", pods, 403, status(403, "Forbidden", `pods "px-x" is forbidden: error looking up service account crawl/none: serviceaccount "none" not found`))
	_, err := provider(t, d.into).Create(t.Context(), request(t, withSection(t, `{serviceAccountName: none}`)))
	e := failure(t, err)
	require.Equal(t, providers.Permanent, e.Class)
	require.Equal(t, "spec.kubernetes.serviceAccountName", e.Field)
}

// What the API server itself finds wrong with a pod names the field from which it was made.
func TestInvalidPodsNameTheField(t *testing.T) {
	cases := map[string]struct{ section, field string }{
		"a node label that is none":        {`{nodeSelector: {"a b": c}}`, "spec.kubernetes.nodeSelector"},
		"a request above its limit":        {`{resources: {requests: {cpu: 2}, limits: {cpu: 1}}}`, "spec.kubernetes.resources.requests"},
		"a resource that is none":          {`{resources: {limits: {disk: 1}}}`, "spec.kubernetes.resources.limits"},
		"a taint that is none":             {`{tolerations: [{key: "a b", operator: Exists}]}`, "spec.kubernetes.tolerations[0].key"},
		"an affinity without a topology":   {`{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: "a b"}]}}}`, "spec.kubernetes.affinity.podAffinity"},
		"a spread that contradicts itself": {`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, minDomains: 2, whenUnsatisfiable: ScheduleAnyway}]}`, "spec.kubernetes.topologySpreadConstraints[0].minDomains"},
	}
	p := provider(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := p.Create(t.Context(), request(t, withSection(t, c.section)))
			e := failure(t, err)
			require.Equal(t, providers.Permanent, e.Class, "%v", err)
			require.True(t, strings.HasPrefix(e.Field, c.field), "%s: %v", e.Field, err)
			require.NotEmpty(t, e.Want)
		})
	}
}

func TestAQuotaThatIsUsedUp(t *testing.T) {
	p, ns := provider(t), namespace(t, nil)
	setQuota(t, ns, true, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")})
	_, err := p.Create(t.Context(), request(t, in(ns)))
	e := failure(t, err)
	require.Equal(t, providers.QuotaExceeded, e.Class, "%v", err)
	require.Equal(t, codeResourceQuota, e.Code)
	require.Contains(t, e.Err.Error(), "exceeded quota: full", "the Event names the quota")
	setQuota(t, ns, false, nil)
	create(t, p, request(t, in(ns)))
}

// The pod is there when its Secret is refused: it must go, or the refusal would be a lie.
func TestAQuotaOfSecretsTakesThePodBack(t *testing.T) {
	p, ns := provider(t), namespace(t, nil)
	quotas := cluster.admin.CoreV1().ResourceQuotas(ns)
	hard := corev1.ResourceList{corev1.ResourceSecrets: resource.MustParse("0")}
	q, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	require.NoError(t, err)
	q.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard}
	_, err = quotas.UpdateStatus(t.Context(), q, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "trial"}}
		_, err := cluster.admin.CoreV1().Secrets(ns).Create(t.Context(), s, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return strings.Contains(errText(err), "exceeded quota")
	}, patience, glance)
	req := request(t, in(ns))
	_, err = p.Create(t.Context(), req)
	require.Equal(t, providers.QuotaExceeded, failure(t, err).Class, "%v", err)
	list, err := cluster.admin.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

func TestAQuotaThatAsksForLimits(t *testing.T) {
	p, ns := provider(t), namespace(t, nil)
	setQuota(t, ns, true, corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("1Gi")})
	_, err := p.Create(t.Context(), request(t, in(ns)))
	e := failure(t, err)
	require.Equal(t, providers.Permanent, e.Class, "%v", err)
	require.Equal(t, codeQuotaNeedsResources, e.Code)
	require.Equal(t, "spec.kubernetes.resources", e.Field)
}

// The user can't know of the operator's own requests, 10m of CPU and 32Mi of memory.
func TestALimitRange(t *testing.T) {
	of := func(name corev1.ResourceName, amount string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(amount)}
	}
	cases := map[string]struct {
		why, section string
		limit        corev1.LimitRangeItem
		field, want  string
	}{
		"above our own request":            {"it says so", `{}`, corev1.LimitRangeItem{Min: of("cpu", "1")}, "spec.kubernetes.resources.requests.cpu", "operator's own request"},
		"below our own request":            {"it says so", `{}`, corev1.LimitRangeItem{Max: of("memory", "16Mi")}, "spec.kubernetes.resources.requests.memory", "operator's own request"},
		"a limit below our own request":    {"it says so", `{}`, corev1.LimitRangeItem{Default: of("memory", "16Mi")}, "spec.kubernetes.resources.requests.memory", "operator's own request"},
		"above the request of the Proxy":   {"the user wrote it", `{resources: {requests: {cpu: 500m}}}`, corev1.LimitRangeItem{Min: of("cpu", "1")}, "spec.kubernetes.resources", "write requests and limits within"},
		"beside the request of the Proxy":  {"ours is of the other resource", `{resources: {requests: {memory: 1Gi}}}`, corev1.LimitRangeItem{Min: of("cpu", "1")}, "spec.kubernetes.resources.requests.cpu", "operator's own request"},
		"below the limit that Proxy wrote": {"the user wrote it", `{resources: {limits: {cpu: 2}}}`, corev1.LimitRangeItem{Max: of("cpu", "1")}, "spec.kubernetes.resources", "write requests and limits within"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, ns := provider(t), namespace(t, nil)
			c.limit.Type = corev1.LimitTypeContainer
			_, err := cluster.admin.CoreV1().LimitRanges(ns).Create(t.Context(), &corev1.LimitRange{
				ObjectMeta: metav1.ObjectMeta{Name: "range"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{c.limit}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			req := request(t, in(ns), withSection(t, c.section))
			var e *providers.Error
			require.Eventually(t, func() bool { // the API server heeds it a moment later
				_, err := p.Create(t.Context(), req)
				if err == nil {
					sweep(t, ns, req.Name)
					return false
				}
				e = failure(t, err)
				return true
			}, patience, glance)
			require.Equal(t, providers.Permanent, e.Class, "%v", e)
			require.Equal(t, codeLimitRange, e.Code, "%v", e)
			require.Equal(t, c.field, e.Field, "%s: %v", c.why, e)
			require.Contains(t, e.Want, c.want, c.why)
		})
	}
}

// No controller ends namespaces here, so it stays as it is.
func TestANamespaceThatIsBeingDeleted(t *testing.T) {
	p, ns := provider(t), namespace(t, nil)
	made := create(t, p, request(t, in(ns)))
	require.NoError(t, cluster.admin.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	_, err := p.Create(t.Context(), requestOf("another", in(ns)))
	e := failure(t, err)
	require.Equal(t, providers.Transient, e.Class, "the Proxy goes with it: %v", err)
	require.Equal(t, codeNamespaceTerminating, e.Code)
	require.True(t, e.Answered)
	require.NoError(t, p.Delete(t.Context(), made.Ref), "what is there can go")
	require.Eventually(t, func() bool { return providers.Is(p.Delete(t.Context(), made.Ref), providers.NotFound) }, patience, glance)
}

// All namespaces are of one account: a deleted one with many Proxies must not stop the creates of the others.
func TestADeletedNamespaceDoesNotOpenTheCircuitOfTheAccount(t *testing.T) {
	ns, g := namespace(t, nil), providers.NewGuarded(account, provider(t), providers.GuardOptions{Clock: clock.RealClock{}, Workers: 20, Limits: providers.Limits{CallsPerSecond: 1000}})
	require.NoError(t, cluster.admin.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}))
	for n := range 20 {
		_, err := g.Create(t.Context(), requestOf(fmt.Sprint("gone ", n), in(ns)))
		require.Equal(t, codeNamespaceTerminating, failure(t, err).Code, "%v", err)
		_, err = g.Create(t.Context(), requestOf(fmt.Sprint("nowhere ", n), in("nowhere")))
		require.Equal(t, codeNamespaceMissing, failure(t, err).Code, "%v", err)
	}
	req := request(t)
	_, err := g.Create(t.Context(), req)
	t.Cleanup(func() { sweep(t, home, req.Name) })
	require.NoError(t, err)
}

func TestANamespaceThatIsNotThere(t *testing.T) {
	p := provider(t)
	_, err := p.Create(t.Context(), request(t, in("nowhere")))
	e := failure(t, err)
	require.Equal(t, providers.Transient, e.Class, "NotFound says nothing of a create: %v", err)
	require.Equal(t, codeNamespaceMissing, e.Code)
	require.True(t, e.Answered)
	ref := providers.Ref{Account: account, Path: "nowhere/" + request(t).Name}
	_, err = p.Get(t.Context(), ref)
	require.True(t, providers.Is(err, providers.NotFound), "%v", err)
	require.True(t, providers.Is(p.Delete(t.Context(), ref), providers.NotFound))
}

func TestAUserWithoutRightsIsDenied(t *testing.T) {
	p := provider(t, func(o *Options) { o.Cluster = as("nobody") })
	ref := providers.Ref{Account: account, Path: home + "/" + request(t).Name}
	_, createErr := p.Create(t.Context(), request(t))
	_, getErr := p.Get(t.Context(), ref)
	_, listErr := p.ListByTag(t.Context(), providers.Selector{Installation: installation})
	for call, err := range map[string]error{"create": createErr, "get": getErr, "list": listErr, "delete": p.Delete(t.Context(), ref)} {
		require.Equal(t, providers.Denied, failure(t, err).Class, "%s: %v", call, err)
	}
}

// TestANamespaceThatRefusesIsNamed: of many watched namespaces one without rights stopped the polls of the whole account, and
// nobody was told which one. It still stops them: what it holds can't be called gone.
func TestANamespaceThatRefusesIsNamed(t *testing.T) {
	one, two := namespace(t, nil), namespace(t, nil)
	grant := func(ns string) {
		id := metav1.ObjectMeta{Name: "reader"}
		_, err := cluster.admin.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: id, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods", "secrets"}, Verbs: []string{"list"}},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = cluster.admin.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: id, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "chosen-" + one}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	watching := func(namespaces ...string) *Provider {
		return provider(t, func(o *Options) { o.Cluster, o.Namespaces = as("chosen-"+one), namespaces })
	}
	look := func(p *Provider) error {
		_, err := p.ListByTag(t.Context(), providers.Selector{Installation: installation})
		return err
	}
	grant(one)
	require.Eventually(t, func() bool { return look(watching(one)) == nil }, patience, glance)
	for name, refused := range map[string]string{"a namespace without a Role": two, "a namespace that is not there": "gone-" + two} {
		t.Run(name, func(t *testing.T) {
			e := failure(t, look(watching(one, refused)))
			require.Equal(t, providers.Denied, e.Class, "a part must not pass for all")
			require.Equal(t, "the operator may not list the pods and Secrets of namespace "+refused+": its Role or RoleBinding there is missing, "+
				"or the namespace is gone and they with it. Apply those of config/namespaced there, or take "+refused+" out of --watch-namespaces. "+
				"Until then the operator sees no machine of the account, in no namespace.", e.Advice)
			require.ErrorContains(t, e, "list secrets in namespace "+refused+": secrets is forbidden")
		})
	}
	t.Run("all namespaces", func(t *testing.T) {
		e := failure(t, look(watching()))
		require.Equal(t, providers.Denied, e.Class)
		require.Contains(t, e.Advice, "ClusterRole of config/rbac")
	})
	t.Run("the right that comes later", func(t *testing.T) {
		p := watching(one, two)
		grant(two)
		require.Eventually(t, func() bool { return look(p) == nil }, patience, glance)
	})
}

func TestAnAPIServerThatIsNotThere(t *testing.T) {
	p := provider(t, func(o *Options) { o.Cluster = &rest.Config{Host: "http://127.0.0.1:1"} })
	_, err := p.Create(t.Context(), request(t))
	require.Equal(t, providers.Transient, failure(t, err).Class, "nothing was sent: %v", err)
	require.False(t, failure(t, err).Answered)
	_, err = p.ListByTag(t.Context(), providers.Selector{Installation: installation})
	require.Equal(t, providers.Transient, failure(t, err).Class, "%v", err)
}

// A page that something between has made says nothing about an object.
func TestANotFoundOfSomethingBetweenIsNone(t *testing.T) {
	d := &door{}
	p := provider(t, d.into)
	made := create(t, p, request(t))
	d.answer("GET", pods, 404, "404 page not found")
	_, err := p.Get(t.Context(), made.Ref)
	require.Equal(t, providers.Transient, failure(t, err).Class, "%v", err)
	require.False(t, failure(t, err).Answered, "it isn't the API server that spoke")
	d.answer("GET", pods, 404, "404 page not found")
	require.Equal(t, providers.Transient, failure(t, p.Delete(t.Context(), made.Ref)).Class)
}

// Nothing is sent twice by the client: the account's guards know its budget.
func TestARefusalIsNotTriedAgain(t *testing.T) {
	d := &door{}
	p := provider(t, d.into)
	busy := d.refuse(429, "1", status(429, "TooManyRequests", "busy"))
	busy(true)
	n := 0
	d.interrupt(0, func() { n++ })
	began := time.Now()
	_, err := p.Get(t.Context(), providers.Ref{Account: account, Path: home + "/" + request(t).Name})
	e := failure(t, err)
	require.Equal(t, providers.Throttled, e.Class)
	require.Equal(t, time.Second, e.RetryAfter)
	require.Equal(t, 1, n)
	require.Less(t, time.Since(began), time.Second)
}
