{{- /* Generated from config/rbac by make manifests. DO NOT EDIT. */ -}}

{{- define "proxy-operator.rules.leader-election-role" -}}
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - get
  - create
  - update
- apiGroups:
  - ""
  resources:
  - events
  verbs:
  - create
  - patch
{{- end -}}

{{- define "proxy-operator.rules.manager-role" -}}
- apiGroups:
  - ""
  resourceNames:
  - kube-system
  resources:
  - namespaces
  verbs:
  - get
- apiGroups:
  - ""
  resources:
  - pods
  verbs:
  - create
  - delete
  - get
  - list
- apiGroups:
  - ""
  resources:
  - secrets
  verbs:
  - create
  - delete
  - get
  - list
  - watch
- apiGroups:
  - crawl.proxy-operator.io
  resources:
  - proxies
  verbs:
  - get
  - list
  - patch
  - watch
- apiGroups:
  - crawl.proxy-operator.io
  resources:
  - proxies/status
  verbs:
  - patch
- apiGroups:
  - events.k8s.io
  resources:
  - events
  verbs:
  - create
  - patch
{{- end -}}

{{- define "proxy-operator.rules.metrics-auth-role" -}}
- apiGroups:
  - authentication.k8s.io
  resources:
  - tokenreviews
  verbs:
  - create
- apiGroups:
  - authorization.k8s.io
  resources:
  - subjectaccessreviews
  verbs:
  - create
{{- end -}}

{{- define "proxy-operator.rules.metrics-reader" -}}
- nonResourceURLs:
  - /metrics
  verbs:
  - get
{{- end -}}

{{- define "proxy-operator.rules.own-namespace-role" -}}
- apiGroups:
  - ""
  resources:
  - configmaps
  verbs:
  - create
  - delete
  - get
  - update
- apiGroups:
  - events.k8s.io
  resources:
  - events
  verbs:
  - create
  - patch
{{- end -}}

{{- define "proxy-operator.rules.proxy-admin-role" -}}
- apiGroups:
  - crawl.proxy-operator.io
  resources:
  - proxies
  verbs:
  - get
  - list
  - watch
  - create
  - update
  - patch
  - delete
  - deletecollection
- apiGroups:
  - crawl.proxy-operator.io
  resources:
  - proxies/status
  verbs:
  - get
{{- end -}}

{{- define "proxy-operator.rules.proxy-editor-role" -}}
- apiGroups:
  - crawl.proxy-operator.io
  resources:
  - proxies
  verbs:
  - get
  - list
  - watch
  - create
  - update
  - patch
  - delete
- apiGroups:
  - crawl.proxy-operator.io
  resources:
  - proxies/status
  verbs:
  - get
{{- end -}}

{{- define "proxy-operator.rules.proxy-viewer-role" -}}
- apiGroups:
  - crawl.proxy-operator.io
  resources:
  - proxies
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - crawl.proxy-operator.io
  resources:
  - proxies/status
  verbs:
  - get
{{- end -}}
