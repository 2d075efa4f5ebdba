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

{{/* Where the replicas of a component run: as values say, otherwise on different nodes if there are enough. */}}
{{- define "lighterage.affinity" -}}
{{- if .values.affinity }}
{{- toYaml .values.affinity }}
{{- else if gt (int .values.replicas) 1 -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "lighterage.selector" . | nindent 12 }}
{{- end }}
{{- end }}

{{/* The namespaces that are watched, the release's own among them; empty for all. */}}
{{- define "lighterage.watched" -}}
{{- if .Values.watchNamespaces -}}
{{ append .Values.watchNamespaces .Release.Namespace | uniq | sortAlpha | join "," }}
{{- end -}}
{{- end }}

{{/* Resources of the API that the operator has rights to and that are of no namespace. */}}
{{- define "lighterage.clusterResources" -}}
[namespaces, nodes, persistentvolumes, servicecidrs, volumeattachments, tokenreviews, subjectaccessreviews,
 compressionpolicies, compressionpolicies/status, peers, peers/status, nodeprofiles, nodeprofiles/status,
 tariffs, tariffs/status, volumesnapshotclasses, volumegroupsnapshotclasses, storageclasses, priorityclasses]
{{- end }}

{{/* A role as the code declares it; arguments: root, component, file, name, and account if it is not the name. config holds the same file. When namespaces
are watched, a ClusterRole keeps what is of the cluster, and Roles in these namespaces get the rest. */}}
{{- define "lighterage.role" -}}
{{- $root := .root }}
{{- $name := .name }}
{{- $account := default .name .account }}
{{- $component := .component }}
{{- $watched := include "lighterage.watched" $root }}
{{- $clusterResources := include "lighterage.clusterResources" $root | fromYamlArray }}
{{- range regexSplit "(?m)^---\n" ($root.Files.Get .file) -1 }}
{{- $role := fromYaml . }}
{{- if $role.kind }}
{{- $own := dict "root" $root "component" $component "account" $account "kind" $role.kind "name" $name "namespace" "" "rules" $role.rules }}
{{- if eq $role.kind "Role" }}{{ $_ := set $own "namespace" $root.Release.Namespace }}{{ end }}
{{- if and $watched (eq $role.kind "ClusterRole") }}
{{- $ofCluster := list }}
{{- $ofNamespaces := list }}
{{- range $role.rules }}
{{- $here := list }}
{{- $there := list }}
{{- range .resources }}
{{- if has . $clusterResources }}{{ $here = append $here . }}{{ else }}{{ $there = append $there . }}{{ end }}
{{- end }}
{{- if $here }}{{ $ofCluster = append $ofCluster (merge (dict "resources" $here) .) }}{{ end }}
{{- if $there }}{{ $ofNamespaces = append $ofNamespaces (merge (dict "resources" $there) .) }}{{ end }}
{{- end }}
{{- $_ := set $own "rules" $ofCluster }}
{{- range splitList "," $watched }}
{{ include "lighterage.boundRole" (dict "root" $root "component" $component "account" $account "kind" "Role" "name" (printf "%s-watched" $name) "namespace" . "rules" $ofNamespaces) }}
{{- end }}
{{- end }}
{{ include "lighterage.boundRole" $own }}
{{- end }}
{{- end }}
{{- end }}

{{/* A role and its binding; arguments: root, component, account, kind, name, namespace, rules. */}}
{{- define "lighterage.boundRole" -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "lighterage.labels" (dict "root" .root "component" .component) | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "lighterage.labels" (dict "root" .root "component" .component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* Not empty where agents draw shares of accelerators. Values of an earlier release that are reused have no shares. */}}
{{- define "lighterage.shares" -}}
{{- $shares := .Values.accelerator.shares | default dict }}
{{- if and .Values.nodeAgent.enabled $shares.enabled (has "s390x" .Values.image.architectures) -}}
true
{{- end -}}
{{- end }}

{{/* The configuration of node agents. Of values that are reused only "enabled" may be there; 0 is a percentage of its own. */}}
{{- define "lighterage.nodeAgentConfig" -}}
{"controlAddress": ":9443"{{ if .Values.nodeAgent.acceleratorCounters }}, "acceleratorCounters": true{{ end }}
{{- if include "lighterage.shares" . }}
{{- $shares := .Values.accelerator.shares }}
{{- $reserved := ternary $shares.reservedPercent 10 (hasKey $shares "reservedPercent") }}, "acceleratorShares": {"listenAddress": ":9444", "units": {{ int ($shares.unitsPerNode | default 1) }}, "reservedPercent": {{ int $reserved }}}
{{- end }}}
{{- end }}
