// SPDX-License-Identifier: Apache-2.0

package forwardproxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// credentials are kept as hashes, so that a comparison takes the same time
// whatever the lengths are.
type credentials struct {
	required           bool
	username, password [sha256.Size]byte
}

func newCredentials(username, password string) (credentials, error) {
	if username == "" && password == "" {
		return credentials{}, nil
	}
	if username == "" || password == "" {
		return credentials{}, errors.New("authentication needs both a username and a password")
	}
	if strings.Contains(username, ":") {
		return credentials{}, errors.New("username contains a colon, which Basic authentication can't carry")
	}
	if strings.ContainsFunc(username+password, unicode.IsControl) {
		return credentials{}, errors.New("username or password contains a control character, such as a line break")
	}
	return credentials{
		required: true,
		username: sha256.Sum256([]byte(username)),
		password: sha256.Sum256([]byte(password)),
	}, nil
}

// allow tells whether a request carries the credentials.
func (c credentials) allow(header http.Header) bool {
	if !c.required {
		return true
	}
	// net/http parses the header only under its other name.
	parser := http.Request{Header: http.Header{"Authorization": header["Proxy-Authorization"]}}
	username, password, ok := parser.BasicAuth()
	gotUser, gotPassword := sha256.Sum256([]byte(username)), sha256.Sum256([]byte(password))
	same := subtle.ConstantTimeCompare(gotUser[:], c.username[:]) & subtle.ConstantTimeCompare(gotPassword[:], c.password[:])
	return ok && same == 1
}

// LoadCredentials reads the files username and password of a folder, which is
// how a kubernetes.io/basic-auth Secret is mounted. One trailing line break is
// trimmed. Errors never quote the content.
func LoadCredentials(dir string) (username, password string, err error) {
	username, userErr := loadCredential(dir, "username")
	password, passwordErr := loadCredential(dir, "password")
	if err := errors.Join(userErr, passwordErr); err != nil {
		return "", "", fmt.Errorf("load credentials: %w", err)
	}
	return username, password, nil
}

func loadCredential(dir, name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, name)) // #nosec G304 -- the folder is the operator's choice
	if err != nil {
		return "", err
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if value == "" {
		return "", fmt.Errorf("file %s in %s is empty", name, dir)
	}
	return value, nil
}
