// SPDX-License-Identifier: Apache-2.0

// Package sbom lists what a Go binary is made of, as SPDX 2.3 in JSON.
package sbom

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// noAssertion is how SPDX says that the list doesn't tell. Where a module comes from, its purl does.
const noAssertion = "NOASSERTION"

// Subject is what the list is about.
type Subject struct {
	// Name and Version are the product's.
	Name, Version string
	// Checksum is the binary's SHA-256, in hex. It makes the document's name unique and yet the same for the same binary.
	Checksum string
}

// SPDX lists the modules of a binary, and the Go release that it was built with.
func SPDX(s Subject, info *debug.BuildInfo) ([]byte, error) {
	product := spdxPackage{
		ID: "SPDXRef-product", Name: s.Name, Version: s.Version, Download: noAssertion, License: "Apache-2.0", Declared: "Apache-2.0",
		Purpose: "APPLICATION", Checksums: []checksum{{"SHA256", s.Checksum}}, References: purl(info.Main.Path, s.Version),
	}
	doc := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: s.Name + "-" + s.Version,
		Namespace: "https://" + info.Main.Path + "/sbom/" + s.Checksum,
		Creation:  creation{Created: time.Unix(0, 0).UTC().Format(time.RFC3339), Creators: []string{"Tool: proxy-operator/hack/image"}},
		Packages:  []spdxPackage{product},
		Relations: []relation{{"SPDXRef-DOCUMENT", "DESCRIBES", product.ID}},
	}
	parts := []spdxPackage{{Name: "go/stdlib", Version: strings.TrimPrefix(info.GoVersion, "go"), References: purl("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}}
	deps := slices.SortedFunc(slices.Values(info.Deps), func(a, b *debug.Module) int { return cmp.Compare(a.Path, b.Path) })
	for _, m := range deps {
		part, err := module(m)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	for i, part := range parts {
		part.ID = fmt.Sprintf("SPDXRef-module-%d", i)
		part.Download, part.License, part.Declared, part.Purpose = noAssertion, noAssertion, noAssertion, "LIBRARY"
		doc.Packages = append(doc.Packages, part)
		doc.Relations = append(doc.Relations, relation{product.ID, "CONTAINS", part.ID})
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode SBOM: %w", err)
	}
	return append(out, '\n'), nil
}

func module(m *debug.Module) (spdxPackage, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	part := spdxPackage{Name: m.Path, Version: m.Version, References: purl(m.Path, m.Version)}
	if m.Sum == "" {
		return part, nil // a folder in place of a module
	}
	// The checksum that go.sum has: a hash over the hashes of all its files.
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil {
		return part, fmt.Errorf("read checksum of %s: %w", m.Path, err)
	}
	part.Checksums = []checksum{{"SHA256", hex.EncodeToString(sum)}}
	return part, nil
}

func purl(path, version string) []reference {
	return []reference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: "pkg:golang/" + path + "@" + version}}
}

type document struct {
	SPDXVersion string        `json:"spdxVersion"`
	DataLicense string        `json:"dataLicense"`
	ID          string        `json:"SPDXID"`
	Name        string        `json:"name"`
	Namespace   string        `json:"documentNamespace"`
	Creation    creation      `json:"creationInfo"`
	Packages    []spdxPackage `json:"packages"`
	Relations   []relation    `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID            string      `json:"SPDXID"`
	Name          string      `json:"name"`
	Version       string      `json:"versionInfo"`
	Download      string      `json:"downloadLocation"`
	FilesAnalyzed bool        `json:"filesAnalyzed"`
	License       string      `json:"licenseConcluded"`
	Declared      string      `json:"licenseDeclared"`
	Purpose       string      `json:"primaryPackagePurpose"`
	Checksums     []checksum  `json:"checksums,omitempty"`
	References    []reference `json:"externalRefs"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relation struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}
