// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metrics reads the operator's metrics as Prometheus would, and without credentials.
func (s *suite) metrics(ctx context.Context) error {
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: origins, Name: "prometheus"}}
	err := s.create(ctx, reader, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-metrics-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "proxy-operator-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: reader.Namespace, Name: reader.Name}},
	})
	if err != nil {
		return err
	}
	var token authenticationv1.TokenRequest
	if err := s.kube.SubResource("token").Create(ctx, reader, &token); err != nil {
		return err
	}
	return s.eventually(ctx, func(ctx context.Context) error {
		pods, err := s.managers(ctx)
		if err != nil || len(pods) == 0 {
			return errors.Join(err, errors.New("there is no operator"))
		}
		body, err := s.scrape(ctx, pods[0].Status.PodIP, token.Status.Token, http.StatusOK)
		if err == nil && !strings.Contains(body, "proxy_operator_proxies{") {
			err = errors.New("proxy_operator_proxies is missing")
		}
		_, refused := s.scrape(ctx, pods[0].Status.PodIP, "", http.StatusUnauthorized)
		return errors.Join(err, refused)
	})
}

func (s *suite) scrape(ctx context.Context, host, token string, status int) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(host, "8443")+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // its certificate is its own
	response, err := (&http.Client{Transport: transport, Timeout: askTimeout}).Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != status {
		err = fmt.Errorf("%s, not %d: %s", response.Status, status, body)
	}
	return string(body), err
}
