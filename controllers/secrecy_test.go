// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
	"github.com/proxy-operator/proxy-operator/internal/sim/cloud"
	"github.com/proxy-operator/proxy-operator/providers"
)

func TestNoSecretGetsIntoStatusOrEvents(t *testing.T) {
	w := newWorld(t, cloud.Pod())
	w.secret("login", map[string]string{"username": "crawler", "password": "hunter2hunter2"})
	w.secret("boot", map[string]string{"user-data": "#cloud-config\ntoken: s3cr3t-t0ken"})
	w.create("a", withUserData, func(p *v1alpha1.Proxy) { p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "login"}} })
	acc := w.r.Providers["cloud"]
	acc.Provider = blabbing{acc.Provider}
	w.r.Providers["cloud"] = acc
	w.gives("a", v1alpha1.ReasonPermanentError)
	all := fmt.Sprint(w.get("a").Status, w.get("a").Annotations, w.events)
	require.Contains(t, all, "[hidden]")
	require.NotContains(t, all, "hunter2")
	require.NotContains(t, all, "s3cr3t")
}

// blabbing is a provider whose error quotes the request.
type blabbing struct{ providers.Provider }

func (b blabbing) Create(_ context.Context, req providers.CreateRequest) (providers.Instance, error) {
	return providers.Instance{}, &providers.Error{Class: providers.Permanent, Op: "create instance", Err: fmt.Errorf("bad request: %+v\nat %s", req, metav1.Now())}
}
