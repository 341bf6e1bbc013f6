// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// crdTemplate takes the file's name, the CRD's name, the version of controller-gen, and all from spec on.
const crdTemplate = `{{- /* Generated from config/crd/bases/%s by make manifests. DO NOT EDIT. */ -}}
{{- if .Values.crds.enabled }}
{{- $own := dict "controller-gen.kubebuilder.io/version" %q }}
{{- if .Values.crds.keep }}{{- $_ := set $own "helm.sh/resource-policy" "keep" }}{{- end }}
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  {{- include "proxy-operator.metadata" (dict "root" $ "component" "crds" "name" %q "namespace" "" "annotations" (mergeOverwrite (dict) .Values.crds.annotations $own)) | nindent 2 }}
%s{{- end }}
`

// generateCRDs makes a template of each CRD in the folder from. They are templates, and not in the chart's folder crds, because
// `helm upgrade` installs nothing of the latter (redhat-cop/vault-config-operator#192).
func generateCRDs(from, to string) error {
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o750)); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRD in %s", from)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		text, err := crd(filepath.Base(f), string(raw))
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if err := write(filepath.Join(to, filepath.Base(f)), text); err != nil {
			return err
		}
	}
	return nil
}

func crd(file, text string) (string, error) {
	var head struct {
		Metadata struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		return "", err
	}
	i := strings.Index(text, "\nspec:\n")
	if i < 0 || head.Metadata.Name == "" {
		return "", errors.New("isn't a CRD as controller-gen writes it")
	}
	return fmt.Sprintf(crdTemplate, file, head.Metadata.Annotations["controller-gen.kubebuilder.io/version"], head.Metadata.Name, literal(text[i+1:])), nil
}

// literal keeps Helm from taking what looks like an action for one.
func literal(text string) string { return strings.ReplaceAll(text, "{{", `{{ "{{" }}`) }

func write(path, text string) error {
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // a file of the repository, for everybody to read
}
