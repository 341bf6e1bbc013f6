// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestWhatHoldsWhereTheSpecIsSilent(t *testing.T) {
	auth := func(name string) *Auth { return &Auth{SecretRef: SecretRef{Name: name}} }
	port, protocol := int32(8080), ProtocolSOCKS5
	cases := map[string]struct {
		why      string
		spec     ProxySpec
		port     int32
		protocol Protocol
		secret   string
	}{
		"nothing is written": {
			why:  "3128 is what a forward proxy usually listens on",
			port: 3128, protocol: "HTTP",
		},
		"everything is written": {
			why:  "what is written holds",
			spec: ProxySpec{Mode: ModeManaged, Port: &port, Protocol: &protocol, Auth: auth("ours")},
			port: 8080, protocol: "SOCKS5", secret: "ours",
		},
		"somebody else's proxy asks for credentials": {
			why:  "their Secret is named at the endpoint; what a machine of ours would listen on stays as it is",
			spec: ProxySpec{Mode: ModeExternal, Endpoint: &Endpoint{Host: "a", Port: 1, Auth: auth("theirs")}},
			port: 3128, protocol: "HTTP", secret: "theirs",
		},
		"somebody else's proxy is open": {
			why:  "no Secret is named anywhere",
			spec: ProxySpec{Mode: ModeExternal, Endpoint: &Endpoint{Host: "a", Port: 1}},
			port: 3128, protocol: "HTTP",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.port, c.spec.ListenPort(), c.why)
			require.Equal(t, c.protocol, c.spec.ListenProtocol(), c.why)
			require.Equal(t, c.secret, c.spec.CredentialsSecret(), c.why)
		})
	}
}

func TestAddToSchemeKnowsTheKinds(t *testing.T) {
	s := runtime.NewScheme()
	require.NoError(t, AddToScheme(s))
	for kind, obj := range map[string]runtime.Object{"Proxy": &Proxy{}, "ProxyList": &ProxyList{}} {
		found, _, err := s.ObjectKinds(obj)
		require.NoError(t, err)
		require.Contains(t, found, GroupVersion.WithKind(kind))
	}
}
