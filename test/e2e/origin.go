// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

const (
	origins    = "e2e-origins"
	originHost = "https." + origins + ".svc.cluster.local"
	certLife   = 24 * time.Hour
	askTimeout = 10 * time.Second

	originAnswers = "an origin answers by HTTP and HTTPS"
)

// login are credentials.
type login struct{ username, password string }

// startOrigin runs two pods of our own image as the servers that requests are for, with a Service each: judges, one of them
// with a certificate.
func (s *suite) startOrigin(ctx context.Context) error {
	if err := s.namespace(ctx, origins); err != nil {
		return err
	}
	cert, key, err := s.certificate(originHost)
	if err != nil {
		return err
	}
	plain := s.originPod("http", "judge", "--bind-address=:8080")
	secure := s.originPod("https", "judge", "--bind-address=:8443", "--tls-cert-path=/tls")
	secure.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tls", MountPath: "/tls"}}
	secure.Spec.Volumes = []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}}}
	err = s.create(ctx, secret(origins, "tls", map[string]string{"tls.crt": cert, "tls.key": key}), plain, secure,
		s.originService("http", 80, 8080), s.originService("https", 443, 8443))
	if err != nil {
		return err
	}
	s.roots = x509.NewCertPool()
	s.roots.AppendCertsFromPEM([]byte(cert))
	return s.eventually(ctx, func(ctx context.Context) error {
		return errors.Join(s.askThrough(ctx, nil, "http", http.StatusOK), s.askThrough(ctx, nil, "https", http.StatusOK))
	})
}

func (s *suite) originPod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: origins, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "origin", Image: s.options.image, ImagePullPolicy: corev1.PullNever, Args: args,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// originService has the scheme as its name.
func (s *suite) originService(scheme string, port, target int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: origins, Name: scheme},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": scheme},
			Ports:    []corev1.ServicePort{{Port: port, TargetPort: intstr.FromInt32(target)}},
		},
	}
}

// ask sends a request to the origin through a Proxy's pod.
func (s *suite) ask(ctx context.Context, p *v1alpha1.Proxy, scheme string, status int, who *login) error {
	at := &url.URL{Scheme: "http", Host: net.JoinHostPort(p.Status.IP, strconv.Itoa(int(p.Status.Port)))}
	if who != nil {
		at.User = url.UserPassword(who.username, who.password)
	}
	if err := s.askThrough(ctx, at, scheme, status); err != nil {
		return fmt.Errorf("through %s at %s: %w", p.Name, at.Redacted(), err)
	}
	return nil
}

// askThrough sends a request to the origin, through a proxy if one is given.
func (s *suite) askThrough(ctx context.Context, at *url.URL, scheme string, status int) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12, ServerName: originHost}, DisableKeepAlives: true}
	target := scheme + "." + origins + ".svc.cluster.local"
	if at != nil {
		transport.Proxy = http.ProxyURL(at)
	} else {
		ip, err := s.serviceIP(ctx, scheme) // here the node's names aren't known
		if err != nil {
			return err
		}
		target = ip
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+target+"/", http.NoBody)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != status {
		err = fmt.Errorf("%s, not %d: %s", response.Status, status, body)
	}
	return err
}

func (s *suite) serviceIP(ctx context.Context, name string) (string, error) {
	service := &corev1.Service{}
	err := s.kube.Get(ctx, client.ObjectKey{Namespace: origins, Name: name}, service)
	return service.Spec.ClusterIP, err
}

// certificate makes one that vouches for itself.
func (s *suite) certificate(host string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("generate key: %w", err)
	}
	now := s.clock.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certLife), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", fmt.Errorf("sign certificate: %w", err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("encode key: %w", err)
	}
	encode := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", raw), nil
}
