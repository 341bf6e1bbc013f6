// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/proxy-operator/proxy-operator/api/v1alpha1"
)

// hashVersion is what new machines are hashed with. A field is added in a way that leaves the hashes of all Proxies without
// it as they were, or with another version:
// kubernetes-sigs/karpenter#957 and aws/karpenter-provider-aws#5373 rolled whole fleets at an upgrade.
const hashVersion = "v1"

// material is what a machine is made from, place apart: a change of any of it makes another machine.
type material struct {
	UserData string            `json:"userData"`
	Port     int32             `json:"port"`
	Protocol string            `json:"protocol"`
	Username string            `json:"username"`
	Password string            `json:"password"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Added after the first release of v1: what is left out of the spec is left out of the JSON, so that the hash of a
	// Proxy without it is what it was. Of the pod section that holds for each of its fields.
	Image string                  `json:"image,omitempty"`
	Pod   *v1alpha1.KubernetesPod `json:"pod,omitempty"`
}

// specHash hashes the material in the newest version: VERSION:HASH. The owner's UID salts it, so that equal passwords
// don't show as equal hashes.
func specHash(m material, owner string) string {
	h, _ := specHashIn(hashVersion, m, owner)
	return h
}

// specHashIn hashes the material as that version did. ok is false for a version that this operator doesn't know.
func specHashIn(version string, m material, owner string) (hash string, ok bool) {
	switch version {
	case "v1":
		return version + ":" + digest(owner, m), true
	default:
		return "", false
	}
}

// digest is a short hash of values that marshal to JSON with their keys in order.
func digest(values ...any) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, v := range values {
		if err := enc.Encode(v); err != nil {
			h.Write([]byte(err.Error())) // what comes from JSON always marshals
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// versionOf is the version that a hash was made with.
func versionOf(hash string) string {
	v, _, _ := strings.Cut(hash, ":")
	return v
}
