// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/providers"
)

// Codes of refusals, beside the API server's own reasons.
const (
	codeNamespaceTerminating = "NamespaceTerminating"
	codeNamespaceMissing     = "NamespaceMissing"
	codeServiceAccount       = "ServiceAccountMissing"
	codeQuotaNeedsResources  = "QuotaNeedsResources"
	codeLimitRange           = "LimitRange"
	codeResourceQuota        = "ResourceQuota"
	codePodSecurity          = "PodSecurity"
	codeAdmissionDenied      = "AdmissionDenied"
)

// throttled is the wait where the API server says to wait and not how long.
const throttled = time.Second

// classed gives an error of the API server the class that tells the caller what to do.
func classed(op string, err error, mutation bool) *providers.Error {
	var own *providers.Error
	if errors.As(err, &own) {
		return own
	}
	e := &providers.Error{Op: op, Code: codeOf(err), Err: err, Class: providers.Transient, Answered: answered(err)}
	wait, asked := apierrors.SuggestsClientDelay(err)
	switch {
	case apierrors.IsTooManyRequests(err):
		e.Class, e.RetryAfter = providers.Throttled, max(time.Duration(wait)*time.Second, throttled)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		e.Class = providers.Denied
	case certain(err), !mutation:
		if asked {
			e.RetryAfter = time.Duration(wait) * time.Second
		}
	default:
		e.Class = providers.Ambiguous
	}
	return e
}

// notFound reports whether the API server itself said that there is no such object. A 404 of something between says nothing
// about an object; client-go marks it.
func notFound(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// certain reports whether the API server said no, or was never asked: nothing was changed.
func certain(err error) bool {
	var own *providers.Error
	if errors.As(err, &own) || errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}

// answered reports whether the API server itself said no: whatever it is about, the API server works. What something between
// says is no answer.
func answered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsUnexpectedServerError(err) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}

// codeOf is the API server's own word for the failure, the same from call to call.
func codeOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return ""
}

// refusal is classed for creates: most of what the API server refuses there was said by admission.
func refusal(err error, req providers.CreateRequest) error {
	e := classed(opCreate, err, true)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		e.Class, e.Code = providers.Transient, codeNamespaceTerminating // the Proxy goes with it
	case e.Class != providers.Throttled && deniedByAdmission(err.Error()):
		e.Class, e.Code = providers.Permanent, codeAdmissionDenied
	case apierrors.IsNotFound(err):
		e.Class, e.Code = providers.Transient, codeNamespaceMissing
	case apierrors.IsForbidden(err):
		forbidden(e, err.Error(), req)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		e.Class = providers.Permanent
		e.Field, e.Want = fieldOf(err)
		ownRequest(e, err.Error(), req)
	case apierrors.IsRequestEntityTooLargeError(err):
		e.Class, e.Field, e.Want = providers.Permanent, "spec.cloudInit", "shorten the user data"
	}
	return e
}

// deniedByAdmission reports whether a webhook or a policy said no. They do so with any status code: by default one says
// Forbidden and the other Invalid.
func deniedByAdmission(text string) bool {
	return strings.Contains(text, "admission webhook ") && strings.Contains(text, " denied the request") ||
		strings.Contains(text, "ValidatingAdmissionPolicy ") && strings.Contains(text, " denied request")
}

// aboutRequest matches what admission and validation say of a request: that a LimitRange forbids it, or that it is above the
// limit which a LimitRange gave.
var aboutRequest = regexp.MustCompile(`(cpu|memory)( usage per (Container|Pod) is [^ ]+, but request is | max limit to request ratio per | limit of )`)

// ownRequest says so where the request at fault is the operator's own, which the user can't know of.
func ownRequest(e *providers.Error, text string, req providers.CreateRequest) {
	for _, m := range aboutRequest.FindAllStringSubmatch(text, -1) {
		name := corev1.ResourceName(m[1])
		if pod := req.Pod; pod != nil {
			_, requested := pod.Resources.Requests[name]
			_, limited := pod.Resources.Limits[name]
			if requested || limited {
				continue
			}
		}
		e.Code, e.Field = codeLimitRange, "spec.kubernetes.resources.requests."+m[1]
		e.Want = "write it, within the namespace's LimitRange; the operator's own request, 10m of CPU or 32Mi of memory, is outside"
		return
	}
}

// forbidden tells the refusals of admission apart, which have one status code and differ in their words only.
func forbidden(e *providers.Error, text string, req providers.CreateRequest) {
	has := func(parts ...string) bool {
		return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
	}
	switch {
	case has(" cannot ", " resource "):
		e.Class = providers.Denied // of our own rights
	case has("exceeded quota"):
		e.Class, e.Code = providers.QuotaExceeded, codeResourceQuota
	case has("failed quota", "must specify"):
		e.Class, e.Code, e.Field = providers.Permanent, codeQuotaNeedsResources, "spec.kubernetes.resources"
		e.Want = "write the requests and limits that the namespace's ResourceQuota asks for"
	case has("error looking up service account"):
		serviceAccount(e, req)
	case has("violates PodSecurity"):
		e.Class, e.Code = providers.Permanent, codePodSecurity
	case has(" per Container is "), has(" per Pod is "):
		e.Class, e.Code, e.Field = providers.Permanent, codeLimitRange, "spec.kubernetes.resources"
		e.Want = "write requests and limits within the namespace's LimitRange"
		ownRequest(e, text, req)
	default:
		e.Class, e.Code = providers.Permanent, codeAdmissionDenied
	}
}

// serviceAccount: the one of a new namespace takes a moment to come.
func serviceAccount(e *providers.Error, req providers.CreateRequest) {
	e.Class, e.Code = providers.Transient, codeServiceAccount
	if req.Pod != nil && req.Pod.ServiceAccountName != "" {
		e.Class, e.Field, e.Want = providers.Permanent, "spec.kubernetes.serviceAccountName", "name a ServiceAccount in the Proxy's namespace"
	}
}

// fieldOf is the spec field from which the pod's field at fault was made; empty: it can't be told.
func fieldOf(err error) (field, want string) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return "", ""
	}
	var fields []string
	for _, c := range status.Status().Details.Causes {
		if f := specField(c.Field); f != "" {
			fields = append(fields, f)
		}
	}
	if len(fields) == 0 {
		return "", ""
	}
	return slices.Min(fields), "write what the API server takes for a pod; the Event says what it refuses"
}

func specField(podField string) string {
	const limit = 128 // a field of a map has the key in it
	for _, m := range [][2]string{
		{"spec.containers[0].image", "spec.image"},
		{"spec.containers[0].resources", "spec.kubernetes.resources"},
		{"metadata.labels", "spec.labels"},
		{"spec.nodeSelector", "spec.kubernetes.nodeSelector"},
		{"spec.tolerations", "spec.kubernetes.tolerations"},
		{"spec.affinity", "spec.kubernetes.affinity"},
		{"spec.topologySpreadConstraints", "spec.kubernetes.topologySpreadConstraints"},
		{"spec.imagePullSecrets", "spec.kubernetes.imagePullSecrets"},
		{"spec.serviceAccountName", "spec.kubernetes.serviceAccountName"},
	} {
		if rest, ok := strings.CutPrefix(podField, m[0]); ok && len(podField) < limit {
			return m[1] + rest
		}
	}
	return ""
}
