// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase is a word for humans about where a Proxy is. It is derived from the conditions and never read by the operator.
type Phase string

// The phases.
const (
	PhasePending      Phase = "Pending"
	PhaseProvisioning Phase = "Provisioning"
	PhaseReady        Phase = "Ready"
	PhaseUnhealthy    Phase = "Unhealthy"
	PhaseReplacing    Phase = "Replacing"
	PhaseDeleting     Phase = "Deleting"
	PhaseFailed       Phase = "Failed"
)

// Instance is the machine that the operator last saw for a Proxy.
type Instance struct {
	// incarnation counts the machines of this Proxy, from 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	Incarnation int64 `json:"incarnation,omitempty"`

	// name of the machine in its account.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// specHash is the hash of what the machine was made from.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	SpecHash string `json:"specHash,omitempty"`
}

// Failure remembers an error that waits for its inputs to change. It may delay the operator, never make it destroy.
type Failure struct {
	// class of the error.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Class string `json:"class,omitempty"`

	// inputs is a hash of what the failed request was made from: generation, Secret contents, account.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Inputs string `json:"inputs,omitempty"`
}

// ProxyStatus is what the operator saw. Equal states give equal bytes: no times, counters or request ids.
type ProxyStatus struct {
	// conditions are Ready, Provisioned and, where proxies are probed, Healthy always; Reconciling and Stalled only while
	// they are true.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the newest generation that a pass of the operator saw.
	// +kubebuilder:validation:Minimum=1
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is one word for humans: Pending, Provisioning, Ready, Unhealthy, Replacing, Deleting or Failed. Programs read
	// the conditions.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// providerID is the full locator of the machine: ACCOUNT://PATH.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +optional
	ProviderID string `json:"providerID,omitempty"`

	// ip is the address, or for mode External the host, that the proxy answers on.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	IP string `json:"ip,omitempty"`

	// port that the proxy answers on.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`

	// exitIP is the address that targets see, as the operator's judge told it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ExitIP string `json:"exitIP,omitempty"`

	// zone that the machine is in.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Zone string `json:"zone,omitempty"`

	// instance is the machine that was last seen.
	// +optional
	Instance *Instance `json:"instance,omitempty"`

	// lastFailure is set while a request waits for its inputs to change.
	// +optional
	LastFailure *Failure `json:"lastFailure,omitempty"`
}
