// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const modeIsFixed = "spec.mode: Invalid value: can't be changed; delete this Proxy and create another"

func TestSpecMayChangeExceptForItsMode(t *testing.T) {
	const external = `{mode: External, endpoint: {host: a.example.com, port: 3128}}`
	cases := map[string]struct {
		why      string
		old, new string
		want     []string // empty: it is taken
	}{
		"from Managed to External": {
			why: "the machine would be left behind",
			old: `{provider: local}`, new: external,
			want: []string{modeIsFixed},
		},
		"from External to Managed": {
			why: "somebody else's proxy would become ours",
			old: external, new: `{mode: Managed, provider: local}`,
			want: []string{modeIsFixed},
		},
		"from External to a mode left out": {
			why: "what is left out is Managed",
			old: external, new: `{provider: local}`,
			want: []string{modeIsFixed},
		},
		"from External to a null mode": {
			why: "a null is as if the field were left out",
			old: external, new: `{mode: null, provider: local}`,
			want: []string{modeIsFixed},
		},
		"from Managed to External with nothing else changed": {
			why: "every fault is told at once",
			old: `{provider: local}`, new: `{mode: External, provider: local}`,
			want: []string{modeIsFixed, "spec.provider: Forbidden", "spec.endpoint: Required value"},
		},
		"from an unknown mode": {
			why: "an unknown mode is no way round",
			old: `{provider: local}`, new: `{mode: Other, provider: local}`,
			want: []string{`spec.mode: Unsupported value: "Other"`},
		},
		"from Managed left out to Managed written": {
			why: "they are the same",
			old: `{provider: local}`, new: `{mode: Managed, provider: local}`,
		},
		"another provider": {
			why: "the machine moves",
			old: `{provider: local}`, new: `{provider: gcp-eu}`,
		},
		"the provider removed": {
			why: "the operator would not know where to make the machine",
			old: `{provider: local}`, new: `{}`,
			want: []string{"spec.provider: Required value: mode Managed needs it"},
		},
		"zones added, removed and reordered": {
			why: "all of this means something",
			old: `{provider: local, location: {zones: [a, b]}}`, new: `{provider: local, location: {zones: [c, a]}}`,
		},
		"location removed": {
			why: "the account's own zones hold then",
			old: `{provider: local, location: {zones: [a, b]}}`, new: `{provider: local}`,
		},
		"labels changed": {
			why: "they are of the machine",
			old: `{provider: local, labels: {a: b}}`, new: `{provider: local, labels: {a: c, d: e}}`,
		},
		"a label of ours added": {
			why: "what is refused at first is refused later",
			old: `{provider: local, labels: {a: b}}`, new: `{provider: local, labels: {a: b, proxy-operator: c}}`,
			want: []string{"spec.labels: Invalid value: write another key than proxy-operator;"},
		},
		"user data moved into a Secret": {
			why: "the machine is replaced",
			old: `{provider: local, cloudInit: {inline: a}}`, new: `{provider: local, cloudInit: {secretRef: {name: a}}}`,
		},
		"a Secret added to user data": {
			why: "what is refused at first is refused later",
			old: `{provider: local, cloudInit: {inline: a}}`, new: `{provider: local, cloudInit: {inline: a, secretRef: {name: a}}}`,
			want: []string{"spec.cloudInit: Invalid value: set exactly one of inline and secretRef"},
		},
		"port, protocol and auth": {
			why: "the machine is replaced",
			old: `{provider: local}`, new: `{provider: local, port: 1, protocol: SOCKS5, auth: {secretRef: {name: a}}}`,
		},
		"a port that is none": {
			why: "what is refused at first is refused later",
			old: `{provider: local}`, new: `{provider: local, port: 0}`,
			want: []string{"spec.port: Invalid value: 0"},
		},
		"another endpoint": {
			why: "nothing is lost by it",
			old: external, new: `{mode: External, endpoint: {host: "2001:db8::1", port: 1, protocol: HTTPS, auth: {secretRef: {name: a}}}}`,
		},
		"the endpoint removed": {
			why: "mode External needs it",
			old: external, new: `{mode: External}`,
			want: []string{"spec.endpoint: Required value: mode External needs it"},
		},
		"a field that isn't there": {
			why: "a typing error must not pass unseen in an edit",
			old: `{provider: local}`, new: `{provider: local, ports: 1}`,
			want: []string{`unknown field "spec.ports"`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			require.NoError(t, create(t.Context(), ns, manifestOf("proxy", c.old)))
			before := read(t, ns, "proxy")
			next, spec := read(t, ns, "proxy"), map[string]any{}
			require.NoError(t, yaml.Unmarshal([]byte(c.new), &spec))
			next["spec"] = spec

			err := replace(t.Context(), ns, next)
			if len(c.want) > 0 {
				requireRefusal(t, err, c.want, c.why)
				require.Equal(t, before, read(t, ns, "proxy"), "what is refused changes nothing")
				return
			}
			require.NoError(t, err, c.why)
			require.Equal(t, withDefaults(spec), read(t, ns, "proxy")["spec"])
		})
	}
}

// A patch reaches the rules by other ways than a whole object.
func TestNoPatchChangesTheMode(t *testing.T) {
	const start = `{mode: External, endpoint: {host: a.example.com, port: 3128}}`
	cases := map[string]struct {
		patch client.Patch
	}{
		"a merge patch that names another mode": {client.RawPatch(types.MergePatchType,
			[]byte(`{"spec":{"mode":"Managed","provider":"local","endpoint":null}}`))},
		"a merge patch that removes the mode": {client.RawPatch(types.MergePatchType,
			[]byte(`{"spec":{"mode":null,"provider":"local","endpoint":null}}`))},
		"a JSON patch that removes the mode": {client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"remove","path":"/spec/mode"},{"op":"remove","path":"/spec/endpoint"},{"op":"add","path":"/spec/provider","value":"local"}]`))},
		"a JSON patch that removes the spec": {client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"remove","path":"/spec"}]`))},
		"a JSON patch that removes the spec's content": {client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec","value":{}}]`))},
	}
	ns := namespace(t)
	require.NoError(t, create(t.Context(), ns, manifestOf("proxy", start)))
	before := read(t, ns, "proxy")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.Proxy{}
			p.Namespace, p.Name = ns, "proxy"
			requireRefusal(t, api.typed.Patch(t.Context(), p, c.patch), []string{"spec"}, name)
			require.Equal(t, before, read(t, ns, "proxy"))
		})
	}
}
