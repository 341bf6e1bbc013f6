// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mode says who runs the proxy.
// +kubebuilder:validation:Enum=Managed;External
type Mode string

// The modes.
const (
	ModeManaged  Mode = "Managed"
	ModeExternal Mode = "External"
)

// Protocol is what clients speak to the proxy.
// +kubebuilder:validation:Enum=HTTP;HTTPS;SOCKS5
type Protocol string

// The protocols.
const (
	ProtocolHTTP   Protocol = "HTTP"
	ProtocolHTTPS  Protocol = "HTTPS"
	ProtocolSOCKS5 Protocol = "SOCKS5"
)

// What holds where the spec is silent. These are not defaults of the schema, so that a field which was left out can be
// told from one that was set.
const (
	DefaultPort     int32 = 3128
	DefaultProtocol       = ProtocolHTTP
)

// ProxySpec is what the user wants: one exit.
// +kubebuilder:validation:XValidation:rule="self.mode == oldSelf.mode",fieldPath=".mode",message="can't be changed; delete this Proxy and create another"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Managed' || has(self.provider)",fieldPath=".provider",reason=FieldValueRequired,message="mode Managed needs it; write the name of an account from the operator's configuration"
// +kubebuilder:validation:XValidation:rule="self.mode != 'Managed' || !has(self.endpoint)",fieldPath=".endpoint",reason=FieldValueForbidden,message="is only for mode External; remove it, or create the Proxy with spec.mode External"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || has(self.endpoint)",fieldPath=".endpoint",reason=FieldValueRequired,message="mode External needs it; write the host and port of the proxy"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.provider)",fieldPath=".provider",reason=FieldValueForbidden,message="is only for mode Managed; remove it"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.location)",fieldPath=".location",reason=FieldValueForbidden,message="is only for mode Managed; remove it"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.image)",fieldPath=".image",reason=FieldValueForbidden,message="is only for mode Managed; remove it"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.kubernetes)",fieldPath=".kubernetes",reason=FieldValueForbidden,message="is only for mode Managed; remove it"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.labels)",fieldPath=".labels",reason=FieldValueForbidden,message="is only for mode Managed; remove it"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.cloudInit)",fieldPath=".cloudInit",reason=FieldValueForbidden,message="is only for mode Managed; remove it"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.port)",fieldPath=".port",reason=FieldValueForbidden,message="is only for mode Managed; write spec.endpoint.port instead"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.protocol)",fieldPath=".protocol",reason=FieldValueForbidden,message="is only for mode Managed; write spec.endpoint.protocol instead"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.auth)",fieldPath=".auth",reason=FieldValueForbidden,message="is only for mode Managed; write spec.endpoint.auth instead"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.bootDeadline)",fieldPath=".bootDeadline",reason=FieldValueForbidden,message="is only for mode Managed; remove it"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.maxAge)",fieldPath=".maxAge",reason=FieldValueForbidden,message="is only for mode Managed; remove it"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.healthCheck) || !has(self.healthCheck.remediation)",fieldPath=".healthCheck.remediation",reason=FieldValueForbidden,message="is only for mode Managed; remove it, since the operator can't replace what somebody else runs"
// +kubebuilder:validation:XValidation:rule="self.mode != 'External' || !has(self.healthCheck) || !has(self.healthCheck.replaceAfter)",fieldPath=".healthCheck.replaceAfter",reason=FieldValueForbidden,message="is only for mode Managed; remove it, since the operator can't replace what somebody else runs"
type ProxySpec struct {
	// mode is Managed (the operator makes and removes the machine) or External (somebody else runs the proxy). It can't
	// be changed.
	// +kubebuilder:default=Managed
	// +optional
	Mode Mode `json:"mode,omitempty"`

	// provider is the name of an account in the operator's configuration. Required for mode Managed. When it is changed,
	// the machine moves: it is removed from the old account and made in the new one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of an account: lower-case letters, digits and hyphens, a letter or digit at both ends"
	// +optional
	Provider string `json:"provider,omitempty"`

	// location says where in the account the machine may be.
	// +optional
	Location *Location `json:"location,omitempty"`

	// image that the machine is made from, as the account's provider spells it; of a container in an account of type
	// kubernetes, which then runs by the image's own entry point. The provider's own if left out.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9_.:/@+]*[a-zA-Z0-9])?$')",message="must be the name of an image, such as registry.example.com/squid:6.12: letters, digits, hyphens, underscores, dots, colons, slashes, plus and at signs, a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="must be written without a scheme, such as registry.example.com/squid:6.12"
	// +optional
	Image string `json:"image,omitempty"`

	// kubernetes is what only a pod has: for accounts of type kubernetes.
	// +optional
	Kubernetes *KubernetesPod `json:"kubernetes,omitempty"`

	// The messages of the rules for labels name a bad key; one with a line break in it can't be shown, and gets the
	// plain message.

	// labels are put on the machine, beside the operator's own.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.lowerAscii().matches('^proxy-operator|(^|[.])proxy-operator[.]io/'))",message="keys that begin with proxy-operator or have the prefix proxy-operator.io/ belong to the operator; write another",messageExpression="'write another key than ' + self.filter(k, k.lowerAscii().matches('^proxy-operator|(^|[.])proxy-operator[.]io/'))[0] + '; keys that begin with proxy-operator or have the prefix proxy-operator.io/ belong to the operator'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, !k.matches('^[a-zA-Z0-9]([-a-zA-Z0-9_./]{0,61}[a-zA-Z0-9])?$'))",message="keys must be 1 to 63 letters, digits, hyphens, underscores, dots and slashes, a letter or digit at both ends",messageExpression="'the key ' + self.filter(k, !k.matches('^[a-zA-Z0-9]([-a-zA-Z0-9_./]{0,61}[a-zA-Z0-9])?$'))[0] + ' must be 1 to 63 letters, digits, hyphens, underscores, dots and slashes, a letter or digit at both ends'"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, !self[k].matches('^([a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?)?$'))",message="values must be empty, or letters, digits, hyphens, underscores and dots, a letter or digit at both ends",messageExpression="'the value of ' + self.filter(k, !self[k].matches('^([a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?)?$'))[0] + ' must be empty, or letters, digits, hyphens, underscores and dots, a letter or digit at both ends'"
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// cloudInit is the user data that the machine boots with. Without it the provider's own makes a working proxy.
	// +optional
	CloudInit *CloudInit `json:"cloudInit,omitempty"`

	// port that the proxy listens on; 3128 if left out.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port *int32 `json:"port,omitempty"`

	// protocol that clients speak to the proxy; HTTP if left out.
	// +optional
	Protocol *Protocol `json:"protocol,omitempty"`

	// auth makes the proxy ask its clients for a user name and a password.
	// +optional
	Auth *Auth `json:"auth,omitempty"`

	// healthCheck says how the proxy is probed, and what is done about one that doesn't work.
	// +optional
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`

	// bootDeadline is how long a new machine may take until traffic gets through it, 30s to 24h; then it is replaced. It
	// doubles with each machine in a row that fails. The operator's --boot-deadline if left out.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h)){1,4}$') && duration(self) >= duration('30s') && duration(self) <= duration('24h')",message="must be a duration from 30s to 24h, such as 10m"
	// +optional
	BootDeadline *metav1.Duration `json:"bootDeadline,omitempty"`

	// maxAge is how old a machine gets, 10m to 8760h; then it is replaced, up to a tenth earlier, so that machines made
	// together don't go together. For ever if left out.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,3})?(ms|s|m|h)){1,4}$') && duration(self) >= duration('10m') && duration(self) <= duration('8760h')",message="must be a duration from 10m to 8760h, such as 168h"
	// +optional
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`

	// endpoint of a proxy that somebody else runs. Required for mode External.
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// Location says where in an account the machine may be.
type Location struct {
	// zones in order of preference. A zone that is added later moves nothing; when the machine's zone is taken out of the
	// list, the machine moves.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=set
	// +required
	Zones []Zone `json:"zones,omitempty"`
}

// Zone is the name of a zone as the account's provider spells it.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9_.:]*[a-zA-Z0-9])?$')",message="must be the name of a zone: letters, digits, hyphens, underscores, dots and colons, a letter or digit at both ends"
type Zone string

// The limit in bytes stands at CloudInit, because a refusal by a rule at a string repeats the string.

// CloudInit is user data for cloud-init, written here or kept in a Secret.
// +kubebuilder:validation:XValidation:rule="has(self.inline) != has(self.secretRef)",message="set exactly one of inline and secretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.inline) || size(bytes(self.inline)) <= 65536",fieldPath=".inline",message="must be at most 65536 bytes in UTF-8; shorten it, or let the machine fetch the rest when it boots"
type CloudInit struct {
	// inline user data, at most 65536 bytes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Inline string `json:"inline,omitempty"`

	// secretRef names the Secret, in the Proxy's namespace, that holds the user data. When its content changes, the
	// machine is replaced.
	// +optional
	SecretRef *SecretKeyRef `json:"secretRef,omitempty"`
}

// SecretKeyRef names a key of a Secret in the Proxy's namespace.
type SecretKeyRef struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, hyphens and dots, a letter or digit at both ends and beside each dot"
	// +required
	Name string `json:"name,omitempty"`

	// key in the Secret.
	// +kubebuilder:default=user-data
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$') && !self.matches('^([.]$|[.][.])')",message="must be a key of a Secret: letters, digits, hyphens, underscores and dots, not two dots at the beginning"
	// +optional
	Key string `json:"key,omitempty"`
}

// Auth names the credentials of a proxy.
type Auth struct {
	// secretRef names a Secret in the Proxy's namespace with the keys username and password, as the type
	// kubernetes.io/basic-auth has them.
	// +required
	SecretRef SecretRef `json:"secretRef,omitzero"`
}

// SecretRef names a Secret in the Proxy's namespace.
type SecretRef struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower-case letters, digits, hyphens and dots, a letter or digit at both ends and beside each dot"
	// +required
	Name string `json:"name,omitempty"`
}

// The rules for host stand at Endpoint, because a refusal by a rule at a string repeats the string, and people paste URLs
// with passwords. The last rule is silent where one before it speaks.

// Endpoint is where a proxy answers that somebody else runs.
// +kubebuilder:validation:XValidation:rule="!self.host.contains('/')",fieldPath=".host",message="must not have a scheme or a path; write the host alone, such as proxy.example.com, 192.0.2.10 or 2001:db8::10, and the port in spec.endpoint.port"
// +kubebuilder:validation:XValidation:rule="!self.host.contains('@')",fieldPath=".host",message="must not have a user name or password; keep them in a Secret, and write its name in spec.endpoint.auth.secretRef.name"
// +kubebuilder:validation:XValidation:rule="self.host.contains('/') || !self.host.matches('^(.*[]]|[^:]*):[0-9]*$')",fieldPath=".host",message="must not have a port; write it in spec.endpoint.port"
// +kubebuilder:validation:XValidation:rule="!self.host.matches('[][]')",fieldPath=".host",message="must not have brackets; write an IPv6 address bare, such as 2001:db8::10"
// +kubebuilder:validation:XValidation:rule="!self.host.matches('[[:space:]]')",fieldPath=".host",message="must not have spaces, tabs or line breaks; write the host alone, such as proxy.example.com, 192.0.2.10 or 2001:db8::10"
// +kubebuilder:validation:XValidation:rule="!isIP(self.host) || !ip(self.host).isUnspecified()",fieldPath=".host",message="must not be the address that stands for all addresses; write one that the proxy can be reached at"
// +kubebuilder:validation:XValidation:rule="self.host.matches('[][/@[:space:]]|^[^:]*:[0-9]*$') || isIP(self.host) || (self.host.matches('^[a-zA-Z0-9_]([-a-zA-Z0-9_]{0,61}[a-zA-Z0-9_])?([.][a-zA-Z0-9_]([-a-zA-Z0-9_]{0,61}[a-zA-Z0-9_])?)*[.]?$') && !self.host.matches('(^|[.])([0-9]+|0[xX][0-9a-fA-F]*)[.]?$'))",fieldPath=".host",message="must be a host name in ASCII letters, an IPv4 address or an IPv6 address without zone, such as proxy.example.com, 192.0.2.10 or 2001:db8::10"
type Endpoint struct {
	// host is a name or an IPv4 or IPv6 address, without scheme, port or brackets.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Host string `json:"host,omitempty"`

	// port that the proxy listens on.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +required
	Port int32 `json:"port,omitempty"`

	// protocol that clients speak to the proxy; HTTP if left out.
	// +optional
	Protocol *Protocol `json:"protocol,omitempty"`

	// auth names the credentials that the proxy asks for.
	// +optional
	Auth *Auth `json:"auth,omitempty"`
}

// Proxy is one exit for web crawlers: a forward proxy on a machine that the operator makes, proves and removes, or one
// that somebody else runs.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=px,categories={all,crawl}
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="IP",type=string,JSONPath=`.status.ip`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.status.port`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="ExitIP",type=string,priority=1,JSONPath=`.status.exitIP`
// +kubebuilder:printcolumn:name="Stalled",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Stalled")].reason`
// +kubebuilder:printcolumn:name="ProviderID",type=string,priority=1,JSONPath=`.status.providerID`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",fieldPath=".metadata",message="metadata.name must be at most 63 characters, so that it can be put on the machine as a label; choose a shorter name"
type Proxy struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is as in every object; the name is at most 63 characters long.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the user wants.
	// +required
	Spec ProxySpec `json:"spec,omitzero"`

	// status is what the operator saw.
	// +optional
	Status ProxyStatus `json:"status,omitzero"`
}

// ProxyList is a list of Proxies.
// +kubebuilder:object:root=true
type ProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Proxy `json:"items"`
}

// ListenPort is the port that the proxy is asked to listen on.
func (s *ProxySpec) ListenPort() int32 {
	if s.Port == nil {
		return DefaultPort
	}
	return *s.Port
}

// ListenProtocol is the protocol that clients are to speak to a Managed proxy.
func (s *ProxySpec) ListenProtocol() Protocol {
	if s.Protocol == nil {
		return DefaultProtocol
	}
	return *s.Protocol
}

// CredentialsSecret is the name of the Secret with the proxy's credentials, of either mode; empty if there is none.
func (s *ProxySpec) CredentialsSecret() string {
	switch {
	case s.Auth != nil:
		return s.Auth.SecretRef.Name
	case s.Endpoint != nil && s.Endpoint.Auth != nil:
		return s.Endpoint.Auth.SecretRef.Name
	default:
		return ""
	}
}
