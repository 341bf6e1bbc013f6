// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// paused reports whether the user stopped everything for this Proxy.
func paused(p *v1alpha1.Proxy) bool { return p.Annotations[v1alpha1.AnnotationPaused] == "true" }

// abandoned reports whether the Proxy may go without its machine. The UID is asked for because an annotation is copied
// with a manifest, and this one gives a machine away.
func abandoned(p *v1alpha1.Proxy) bool {
	return p.UID != "" && p.Annotations[v1alpha1.AnnotationAbandon] == string(p.UID)
}

// replaceRequested is the time before which machines are to be replaced; zero if there is none.
func replaceRequested(p *v1alpha1.Proxy) (time.Time, error) {
	v, ok := p.Annotations[v1alpha1.AnnotationReplaceRequestedAt]
	if !ok {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return time.Time{}, fmt.Errorf("parse %s: %w", v1alpha1.AnnotationReplaceRequestedAt, err)
	}
	return at, nil
}

// annotationPrefix begins all of the operator's annotations. One that is misspelt is told of: somebody relies on it.
const annotationPrefix = "crawl.proxy-operator.io/"

// knownAnnotations lists the operator's own first, then those that users set.
func knownAnnotations() []string {
	return []string{
		v1alpha1.AnnotationIntent, v1alpha1.AnnotationPaused, v1alpha1.AnnotationReconcileRequestedAt,
		v1alpha1.AnnotationReplaceRequestedAt, v1alpha1.AnnotationAbandon,
	}
}

// annotationProblem tells of the first of the user's annotations that can't be acted on, so that none is ignored.
func annotationProblem(p *v1alpha1.Proxy) *Problem {
	problem := func(name, want string) *Problem {
		return &Problem{v1alpha1.ReasonInvalidAnnotation, "annotation " + name + ": " + want, 0}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		if strings.HasPrefix(key, annotationPrefix) && !slices.Contains(knownAnnotations(), key) {
			return problem(key, "is not known; there are "+strings.Join(knownAnnotations()[1:], ", ")+".")
		}
	}
	if v, ok := p.Annotations[v1alpha1.AnnotationPaused]; ok && v != "true" && v != "false" {
		return problem(v1alpha1.AnnotationPaused, `write "true" to pause, or remove it.`)
	}
	if _, err := replaceRequested(p); err != nil {
		return problem(v1alpha1.AnnotationReplaceRequestedAt, "write a time in RFC 3339, such as 2026-01-31T12:00:00Z.")
	}
	if _, ok := p.Annotations[v1alpha1.AnnotationAbandon]; ok && !abandoned(p) {
		return problem(v1alpha1.AnnotationAbandon, fmt.Sprintf("write this Proxy's UID, %s, to let it go without its machine.", p.UID))
	}
	return nil
}
