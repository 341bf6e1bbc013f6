// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// An authority lives as long as its data directory; what it issues is
	// issued anew by each start.
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	clockSkew     = time.Hour // a machine's clock may be set back a little
)

// authority is a certificate authority of our own.
type authority struct {
	cert    *x509.Certificate
	certPEM []byte
	key     *ecdsa.PrivateKey
	now     time.Time
}

// keyPair is a certificate with its key, both PEM.
type keyPair struct{ cert, key []byte }

// loadAuthority returns the authority kept in dir as NAME.crt and NAME.key,
// made when there is none yet.
func loadAuthority(dir, name string, now time.Time) (*authority, error) {
	key, err := loadKey(filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, name+".crt")
	certPEM, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if certPEM, err = selfSigned(name, key, now); err == nil {
			err = writePrivate(file, certPEM)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", name, err)
	}
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, fmt.Errorf("certificate authority %s: %s is not PEM", name, file)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", name, err)
	}
	return &authority{cert: cert, certPEM: certPEM, key: key, now: now}, nil
}

func selfSigned(name string, key *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	template, err := newTemplate(pkix.Name{CommonName: name}, now, authorityLife)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// serving issues a certificate for a server on loopback, and on the other
// addresses and names. etcd is a client of itself with the certificate it
// serves, so it is good for both.
func (a *authority) serving(name string, addresses []net.IP, names ...string) (keyPair, error) {
	return a.issue(pkix.Name{CommonName: name}, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		c.DNSNames = append([]string{"localhost"}, names...)
		c.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...)
	})
}

// client issues a certificate for the user name, a member of groups.
func (a *authority) client(name string, groups ...string) (keyPair, error) {
	return a.issue(pkix.Name{CommonName: name, Organization: groups}, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
}

func (a *authority) issue(subject pkix.Name, usage func(*x509.Certificate)) (keyPair, error) {
	template, err := newTemplate(subject, a.now, leafLife)
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	usage(template)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("generate key of %s: %w", subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign certificate of %s: %w", subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	return keyPair{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: keyPEM}, err
}

func newTemplate(subject pkix.Name, now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(life)}, nil
}

// loadKey returns the key kept in file, made when there is none yet.
func loadKey(file string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newKey(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("read key: %s is not PEM", file)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", file, err)
	}
	return key, nil
}

func newKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key %s: %w", file, err)
	}
	text, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePrivate(file, text)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// writePrivate puts a file in place that only its owner can read. It is whole
// or absent whenever the process ends.
func writePrivate(file string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(file), ".partial-") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}
