// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The types below are those of a pod, of which they keep names and meaning, less what a forward proxy has no use for. They
// are types of our own because every field of this API has its limits, and those of k8s.io/api have none.

// KubernetesPod is what only a pod has. All of it is copied into the pod's spec as it is; the cluster's API server checks
// the rest.
// +kubebuilder:validation:MinProperties=1
type KubernetesPod struct {
	// resources of the container: 10m of CPU and 32Mi of memory are requested where nothing is said, and nothing is limited.
	// +optional
	Resources *PodResources `json:"resources,omitempty"`

	// nodeSelector names labels that the node must have.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// tolerations let the pod onto nodes that keep others away.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Tolerations []Toleration `json:"tolerations,omitempty"` //nolint:kubeapilinter // as in a pod, where no field of a toleration is required

	// affinity says which nodes the pod wants, and which pods it wants near or far.
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints spread pods over zones or nodes.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	TopologySpreadConstraints []TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// imagePullSecrets are Secrets in the Proxy's namespace with the credentials of the image's registry.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	ImagePullSecrets []SecretRef `json:"imagePullSecrets,omitempty"`

	// imagePullPolicy says when the image is pulled. If left out: IfNotPresent for the operator's own image; for another, as
	// everywhere, Always for the tag latest, else IfNotPresent.
	// +optional
	ImagePullPolicy *PullPolicy `json:"imagePullPolicy,omitempty"`

	// serviceAccountName is a ServiceAccount in the Proxy's namespace, for its pull secrets and for rules of the cluster. Its
	// token is never mounted.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a ServiceAccount: lower-case letters, digits, hyphens and dots, a letter or digit at both ends and beside each dot"
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// PullPolicy says when an image is pulled.
// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
type PullPolicy string

// PodResources are what the container asks for and what it may use at most.
// +kubebuilder:validation:MinProperties=1
type PodResources struct {
	// requests are what the scheduler keeps free for it.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Requests map[string]Quantity `json:"requests,omitempty"`

	// limits are what it may use at most.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Limits map[string]Quantity `json:"limits,omitempty"`
}

// It is a type of our own because the pattern that resource.Quantity brings into a CRD takes what resource.Quantity can't
// read, and one such Proxy keeps every list from being read.

// Quantity is an amount of a resource as in a pod: 500m, 0.5, 2, 256Mi. It is kept in the form that Kubernetes writes, so that
// 1000m and 1 are one amount.
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : type(self) == string && self.matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i|[eE][0-9]{1,2})?$')",message="must be an amount such as 500m, 0.5, 2 or 256Mi: at most 19 digits, 9 more behind a dot, and a unit"
type Quantity string

// MarshalJSON writes it as a string, as Kubernetes does.
func (q Quantity) MarshalJSON() ([]byte, error) { return json.Marshal(string(q)) }

// UnmarshalJSON reads strings and numbers. What is no amount is kept as it is.
func (q *Quantity) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	if amount, err := resource.ParseQuantity(text); err == nil {
		text = amount.String()
	}
	*q = Quantity(text)
	return nil
}

// Toleration lets a pod onto nodes with a taint.
// +kubebuilder:validation:XValidation:rule="has(self.key) || (has(self.operator) && self.operator == 'Exists')",fieldPath=".operator",message="must be Exists where there is no key; write it, or name a key"
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.operator) || self.operator != 'Exists'",fieldPath=".value",message="is only for the operator Equal; remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",fieldPath=".tolerationSeconds",message="is only for the effect NoExecute; remove it, or write that effect"
type Toleration struct {
	// key of the taint; all taints if left out.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +optional
	Key string `json:"key,omitempty"`

	// operator is Equal (the taint has that value) or Exists; Equal if left out.
	// +kubebuilder:validation:Enum=Equal;Exists
	// +kubebuilder:validation:MaxLength=16
	// +optional
	Operator string `json:"operator,omitempty"`

	// value of the taint.
	// +optional
	Value *LabelValue `json:"value,omitempty"`

	// effect of the taint; all effects if left out.
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Effect string `json:"effect,omitempty"`

	// tolerationSeconds is how long the pod stays on a node that gets the taint; for ever if left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// TopologySpreadConstraint spreads pods over the values of a node label.
type TopologySpreadConstraint struct {
	// maxSkew is how much fuller one value may be than another.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +required
	MaxSkew int32 `json:"maxSkew,omitempty"`

	// topologyKey is the node label, such as topology.kubernetes.io/zone.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	TopologyKey string `json:"topologyKey,omitempty"`

	// whenUnsatisfiable says what to do with a pod that fits nowhere.
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	// +kubebuilder:validation:MaxLength=32
	// +required
	WhenUnsatisfiable string `json:"whenUnsatisfiable,omitempty"`

	// labelSelector picks the pods that are counted; none if left out.
	// +optional
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`

	// minDomains is the least number of values; 1 if left out.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MinDomains *int32 `json:"minDomains,omitempty"`
}
