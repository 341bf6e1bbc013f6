// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Affinity says which nodes a pod wants, and which pods it wants near or far.
// +kubebuilder:validation:MinProperties=1
type Affinity struct {
	// nodeAffinity is about nodes.
	// +optional
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`

	// podAffinity is about pods to be near.
	// +optional
	PodAffinity *PodAffinity `json:"podAffinity,omitempty"`

	// podAntiAffinity is about pods to be far from.
	// +optional
	PodAntiAffinity *PodAffinity `json:"podAntiAffinity,omitempty"`
}

// NodeAffinity says which nodes a pod must have, and which it would rather have.
// +kubebuilder:validation:MinProperties=1
type NodeAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution is what the node must match.
	// +optional
	Required *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// preferredDuringSchedulingIgnoredDuringExecution is what a node should match, by weight.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Preferred []PreferredSchedulingTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector matches a node that matches one of its terms.
type NodeSelector struct {
	// nodeSelectorTerms of which one must match.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +required
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms,omitempty"`
}

// NodeSelectorTerm matches a node that matches all of its expressions.
type NodeSelectorTerm struct {
	// matchExpressions about the node's labels, all of which must match.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +required
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions,omitempty"`
}

// NodeSelectorRequirement is about one label of a node.
// +kubebuilder:validation:XValidation:rule="self.operator in ['Exists', 'DoesNotExist'] ? !has(self.values) : has(self.values)",fieldPath=".values",message="must be there for all operators but Exists and DoesNotExist, and for these must not"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt']) || !has(self.values) || size(self.values) == 1",fieldPath=".values",message="must be one number for the operators Gt and Lt"
type NodeSelectorRequirement struct {
	// key of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	Key string `json:"key,omitempty"`

	// operator between the label and the values.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	// +kubebuilder:validation:MaxLength=16
	// +required
	Operator string `json:"operator,omitempty"`

	// values to compare with.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Values []LabelValue `json:"values,omitempty"`
}

// PreferredSchedulingTerm is a wish about nodes, and its weight.
type PreferredSchedulingTerm struct {
	// weight of the wish, 1 to 100.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +required
	Weight int32 `json:"weight,omitempty"`

	// preference that a node should match.
	// +required
	Preference NodeSelectorTerm `json:"preference,omitzero"`
}

// PodAffinity says which pods must, and which should, be near; as podAntiAffinity, be far.
// +kubebuilder:validation:MinProperties=1
type PodAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution must hold for the node, all of it.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Required []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// preferredDuringSchedulingIgnoredDuringExecution should hold, by weight.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Preferred []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// PodAffinityTerm picks pods, and says what near means.
type PodAffinityTerm struct {
	// labelSelector picks the pods; none if left out.
	// +optional
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`

	// namespaces of the pods; the Proxy's own if left out.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Namespaces []LabelValue `json:"namespaces,omitempty"`

	// topologyKey is the node label whose value nodes share that are near, such as kubernetes.io/hostname.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	TopologyKey string `json:"topologyKey,omitempty"`
}

// WeightedPodAffinityTerm is a wish about pods, and its weight.
type WeightedPodAffinityTerm struct {
	// weight of the wish, 1 to 100.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +required
	Weight int32 `json:"weight,omitempty"`

	// podAffinityTerm that should hold.
	// +required
	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm,omitzero"`
}

// LabelSelector matches an object that matches all of it.
// +kubebuilder:validation:MinProperties=1
type LabelSelector struct {
	// matchLabels that the object must have.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +optional
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions about the object's labels, all of which must match.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelSelectorRequirement is about one label.
// +kubebuilder:validation:XValidation:rule="self.operator in ['Exists', 'DoesNotExist'] ? !has(self.values) : has(self.values)",fieldPath=".values",message="must be there for In and NotIn, and must not for Exists and DoesNotExist"
type LabelSelectorRequirement struct {
	// key of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	Key string `json:"key,omitempty"`

	// operator between the label and the values.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	// +kubebuilder:validation:MaxLength=16
	// +required
	Operator string `json:"operator,omitempty"`

	// values to compare with.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Values []LabelValue `json:"values,omitempty"`
}
