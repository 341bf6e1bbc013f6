// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"errors"
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
	e := &providers.Error{Op: op, Code: codeOf(err), Err: err, Class: providers.Transient}
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
	case apierrors.IsNotFound(err):
		e.Class, e.Code = providers.Transient, codeNamespaceMissing
	case apierrors.IsForbidden(err):
		forbidden(e, err.Error(), req)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		e.Class = providers.Permanent
		e.Field, e.Want = fieldOf(err)
	case apierrors.IsRequestEntityTooLargeError(err):
		e.Class, e.Field, e.Want = providers.Permanent, "spec.cloudInit", "shorten the user data"
	}
	return e
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
		e.Class = providers.QuotaExceeded
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
