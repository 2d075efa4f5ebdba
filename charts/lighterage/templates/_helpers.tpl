{{/* Names are fixed: certificates, Secrets and agents of one cluster belong to one installation. */}}

{{- define "lighterage.selector" -}}
app.kubernetes.io/name: lighterage
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "lighterage.labels" -}}
{{ include "lighterage.selector" . }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ include "lighterage.tag" .root | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "lighterage.tag" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The image of a component; arguments: root, component. */}}
{{- define "lighterage.image" -}}
{{- $registry := required "image.registry is required: the registry that holds the images; push them with make images REGISTRY=..., then helm ... --set image.registry=..." .root.Values.image.registry -}}
{{- $digest := index .root.Values.image.digests .component -}}
{{ trimSuffix "/" $registry }}/lighterage/{{ .component }}{{ if $digest }}@{{ $digest }}{{ else }}:{{ include "lighterage.tag" .root }}{{ end }}
{{- end }}

{{- define "lighterage.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "lighterage.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* What a user may set of any pod; arguments: root, values. */}}
{{- define "lighterage.scheduling" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A role as the code declares it; arguments: root, file, name. config/rbac holds the same file. */}}
{{- define "lighterage.role" -}}
{{- $root := .root }}
{{- $name := .name }}
{{- $component := .component }}
{{- range regexSplit "(?m)^---\n" ($root.Files.Get .file) -1 }}
{{- $role := fromYaml . }}
{{- if $role.kind }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}
metadata:
  name: {{ $name }}
  {{- if eq $role.kind "Role" }}
  namespace: {{ $root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "lighterage.labels" (dict "root" $root "component" $component) | nindent 4 }}
rules:
  {{- toYaml $role.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $role.kind }}Binding
metadata:
  name: {{ $name }}
  {{- if eq $role.kind "Role" }}
  namespace: {{ $root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "lighterage.labels" (dict "root" $root "component" $component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $role.kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end }}
