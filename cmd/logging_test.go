// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestEventsOfANamespaceThatGoesAreNoErrors(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "e", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	cases := map[string]struct {
		why string
		err error
		msg string
		at  int // verbosity
		is  string
	}{
		"the namespace is terminating":    {"so are all Events", terminating, eventRefused + " (will not retry!)", 0, ""},
		"the namespace is gone":           {"the same", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), eventRefused + " (will not retry!)", 0, ""},
		"somebody looks closely":          {"nothing is lost", terminating, eventRefused + " (will not retry!)", 1, "level=1"},
		"Events are forbidden":            {"rights are missing", apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "e", errors.New("no")), eventRefused + " (will not retry!)", 0, "error="},
		"another write to that namespace": {"whoever sent it must know", terminating, "Reconciler error", 0, "error="},
		"another error of the same words": {"the server fails", errors.New("boom"), eventRefused, 0, "error="},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got string
			log := funcr.New(func(_, args string) { got = args }, funcr.Options{Verbosity: c.at})
			log = log.WithSink(quiet{log.GetSink()}).WithName("events").WithValues("a", "b")
			log.Error(c.err, c.msg)
			switch c.is {
			case "":
				require.Empty(t, got, c.why)
			case "error=":
				require.Contains(t, got, fmt.Sprintf("%q", c.msg), c.why)
			default:
				require.Contains(t, got, "being deleted", c.why)
			}
		})
	}
}
