// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Finalizer holds a Proxy until its machine is proved gone.
const Finalizer = "crawl.proxy-operator.io/instance"

// Annotations that users set.
const (
	// AnnotationPaused stops everything for this Proxy, deletion too, while it is "true".
	AnnotationPaused = "crawl.proxy-operator.io/paused"
	// AnnotationReconcileRequestedAt asks for a pass now, and lifts waits after errors, whenever its value changes.
	AnnotationReconcileRequestedAt = "crawl.proxy-operator.io/reconcile-requested-at"
	// AnnotationReplaceRequestedAt asks for a new machine: one asked for before this time (RFC 3339) is replaced. A time
	// to come is a plan.
	AnnotationReplaceRequestedAt = "crawl.proxy-operator.io/replace-requested-at"
	// AnnotationAbandon lets a Proxy that is being deleted go without its machine. Its value must be the Proxy's UID.
	AnnotationAbandon = "crawl.proxy-operator.io/abandon"
)

// AnnotationIntent is the operator's own: the ledger of the newest create, written before it. Nobody else may write it.
const AnnotationIntent = "crawl.proxy-operator.io/intent"
