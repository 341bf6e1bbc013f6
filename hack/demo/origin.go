// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// origin is the web site that the crawlers visit, by HTTP and by HTTPS. It answers with what it sees.
type origin struct {
	roots   *x509.CertPool // its own CA
	caFile  string         // the same, for curl
	servers map[string]*http.Server
	addrs   map[string]string
}

// seen is the origin's answer.
type seen struct {
	Scheme string `json:"scheme"`
	From   string `json:"from"` // the address that the request came from
	Path   string `json:"path"`
}

func startOrigin(dir string) (*origin, error) {
	ca, cert, err := issue()
	if err != nil {
		return nil, fmt.Errorf("issue the origin's certificate: %w", err)
	}
	o := &origin{roots: x509.NewCertPool(), caFile: filepath.Join(dir, "origin-ca.pem"), servers: map[string]*http.Server{}, addrs: map[string]string{}}
	o.roots.AppendCertsFromPEM(ca)
	if err := os.WriteFile(o.caFile, ca, 0o600); err != nil {
		return nil, fmt.Errorf("write the origin's CA: %w", err)
	}
	for _, scheme := range []string{"http", "https"} {
		listener, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // a listen on loopback never waits
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start the origin: %w", err), o.close())
		}
		server := &http.Server{Handler: answer(scheme), ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent()}
		o.servers[scheme], o.addrs[scheme] = server, listener.Addr().String()
		if scheme == "https" {
			listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
		}
		go func() { _ = server.Serve(listener) }() // until close
	}
	return o, nil
}

func (o *origin) url(scheme string) string { return scheme + "://" + o.addrs[scheme] + "/" }

func (o *origin) close() error {
	var errs []error
	for _, s := range o.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

func answer(scheme string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			from = r.RemoteAddr
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(seen{Scheme: scheme, From: from, Path: r.URL.Path}) // the client sees what is missing
	})
}

// issue makes a CA and a certificate of it for 127.0.0.1.
func issue() (ca []byte, cert tls.Certificate, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, cert, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, cert, err
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "proxy-operator demo origin CA"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, cert, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "proxy-operator demo origin"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, caKey)
	if err != nil {
		return nil, cert, err
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return ca, tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}, nil
}

// silent is for a server whose clients are told what goes wrong.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }
