// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The targets aren't a list by key, because the refusal of a key that is there twice repeats it, and people paste URLs with
// passwords.

// HealthCheck says how a proxy is probed: by requests to targets, sent through the proxy itself.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.targets) || self.targets.all(t, self.targets.exists_one(u, u.url == t.url))",fieldPath=".targets",message="must each have another URL; remove the second of the same"
// +kubebuilder:validation:XValidation:rule="!has(self.quorum) || (has(self.targets) && self.quorum <= size(self.targets))",fieldPath=".quorum",message="must not be more than there are targets; write more spec.healthCheck.targets, or a smaller number"
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || !has(self.timeout) || !self.interval.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h)){1,4}$') || !self.timeout.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h)){1,4}$') || duration(self.timeout) <= duration(self.interval)",fieldPath=".timeout",message="must not be longer than spec.healthCheck.interval"
// +kubebuilder:validation:XValidation:rule="!has(self.replaceAfter) || !has(self.remediation) || self.remediation != 'None'",fieldPath=".replaceAfter",message="says when to replace, and remediation None never does; remove one of them"
type HealthCheck struct {
	// targets that are asked for through the proxy; the operator's own if left out.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	// +optional
	Targets []HealthTarget `json:"targets,omitempty"`

	// quorum is how many targets must answer as expected; more than half of them if left out.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	// +optional
	Quorum *int32 `json:"quorum,omitempty"`

	// interval from probe to probe, 1s to 1h; the operator's --health-interval if left out.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h)){1,4}$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be a duration from 1s to 1h, such as 30s"
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`

	// timeout of one probe, 100ms to 1m; the operator's --health-timeout if left out.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h)){1,4}$') && duration(self) >= duration('100ms') && duration(self) <= duration('1m')",message="must be a duration from 100ms to 1m, such as 10s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// failureThreshold is how many probes in a row must fail until the proxy is unhealthy; 3 if left out.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`

	// successThreshold is how many must succeed until it is healthy again; 1 if left out.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`

	// remediation is Replace (a machine that stays unhealthy is replaced) or None; Replace if left out.
	// +optional
	Remediation *Remediation `json:"remediation,omitempty"`

	// replaceAfter is how long a machine must be unhealthy before it is replaced, 10s to 24h; the operator's
	// --unhealthy-timeout if left out.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h)){1,4}$') && duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="must be a duration from 10s to 24h, such as 5m"
	// +optional
	ReplaceAfter *metav1.Duration `json:"replaceAfter,omitempty"`
}

// Remediation says what is done about a machine that stays unhealthy.
// +kubebuilder:validation:Enum=Replace;None
type Remediation string

// The remediations.
const (
	RemediationReplace Remediation = "Replace"
	RemediationNone    Remediation = "None"
)

// The rules for url stand here, because a refusal by a rule at a string repeats the string, and people paste URLs with
// passwords.

// HealthTarget is a request that must get through the proxy.
// +kubebuilder:validation:XValidation:rule="isURL(self.url) && url(self.url).getScheme() in ['http', 'https'] && size(url(self.url).getHostname()) > 0",fieldPath=".url",message="must be an absolute URL with http or https, such as https://example.com/health"
// +kubebuilder:validation:XValidation:rule="!self.url.matches('^[^/?#]*//[^/?#]*:(0+|[0-9]{6,}|[7-9][0-9]{4}|6[6-9][0-9]{3}|65[6-9][0-9]{2}|655[4-9][0-9]|6553[6-9])([/?#]|$)')",fieldPath=".url",message="the port must be a number from 1 to 65535; correct it, or leave it out"
// +kubebuilder:validation:XValidation:rule="!self.url.matches('^[^/?#]*//[^/?#]*@')",fieldPath=".url",message="must not have a user name or password; use a target that asks for none"
type HealthTarget struct {
	// url with http or https, without user name and password.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +required
	URL string `json:"url,omitempty"`

	// expectedStatus are the status codes that count as success; 200 to 399 if left out. 407 can't be one: it is how a proxy
	// refuses.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!(407 in self)",message="407 is how a proxy refuses its client, and never a success; remove it"
	// +listType=set
	// +optional
	ExpectedStatus []StatusCode `json:"expectedStatus,omitempty"`
}

// StatusCode is a status code of HTTP.
// +kubebuilder:validation:Minimum=100
// +kubebuilder:validation:Maximum=599
type StatusCode int32
