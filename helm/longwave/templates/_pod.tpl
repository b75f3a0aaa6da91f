{{/* The common parts of all pods. */}}

{{/* dict root. */}}
{{- define "longwave.podSecurityContext" -}}
{{- toYaml .root.Values.podSecurityContext -}}
{{- end -}}

{{- define "longwave.containerSecurityContext" -}}
{{- toYaml .root.Values.containerSecurityContext -}}
{{- end -}}

{{/* The part of a container's environment from Secrets and ConfigMaps: a part's values. */}}
{{- define "longwave.envFrom" -}}
{{- with .envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of a part's pods: dict root, component, part (its values). */}}
{{- define "longwave.podMetadata" -}}
labels:
  {{- include "longwave.selectorLabels" . | nindent 2 }}
  {{- with include "longwave.together" (list .root.Values.commonLabels .part.podLabels) }}
  {{- . | nindent 2 }}
  {{- end }}
annotations:
  checksum/config: {{ include "longwave.config" .root | sha256sum }}
  {{- with .part.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Account and placement of a pod: dict root, component, part, and tolerations (a list in addition). */}}
{{- define "longwave.podSettings" -}}
serviceAccountName: {{ include "longwave.serviceAccountName" .root | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ int64 .part.terminationGracePeriodSeconds }}
securityContext:
  {{- include "longwave.podSecurityContext" . | nindent 2 }}
{{- with include "longwave.pullSecrets" .root }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
{{- /* On the node's network a pod finds the cluster's Services only by this policy. */}}
{{- $implied := ternary (dict "dnsPolicy" "ClusterFirstWithHostNet") dict (not (empty .part.hostNetwork)) }}
{{- range $key := list "priorityClassName" "schedulerName" "hostNetwork" "dnsPolicy" "dnsConfig" "hostAliases" "nodeSelector" "affinity" }}
{{- with get $.part $key | default (get $implied $key) }}
{{ dict $key . | toYaml }}
{{- end }}
{{- end }}
{{- with concat (.tolerations | default list) (.part.tolerations | default list) }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- include "longwave.spread" . }}
{{- end -}}

{{- define "longwave.spread" -}}
{{- $constraints := list -}}
{{- with .part.spread -}}
{{- if ne .policy "None" -}}
{{- $selector := dict "matchLabels" (include "longwave.selectorLabels" $ | fromYaml) -}}
{{- $constraints = append $constraints (dict "maxSkew" 1 "topologyKey" .topologyKey "whenUnsatisfiable" .policy "labelSelector" $selector) -}}
{{- end -}}
{{- end -}}
{{- with concat $constraints (.part.topologySpreadConstraints | default list) }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Probes over gRPC's health service, which needs no certificate: dict part, ready (the name of the service). */}}
{{- define "longwave.grpcProbes" -}}
{{- range $kind := list "startup" "liveness" "readiness" }}
{{- $probe := get $.part.probes $kind }}
{{- if $probe.enabled }}
{{ $kind }}Probe:
  grpc:
    port: 7071
    {{- if eq $kind "readiness" }}
    service: ready
    {{- end }}
  {{- omit $probe "enabled" | toYaml | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "longwave.httpProbes" -}}
{{- range $kind := list "startup" "liveness" "readiness" }}
{{- $probe := get $.part.probes $kind }}
{{- if $probe.enabled }}
{{ $kind }}Probe:
  httpGet:
    path: /healthz
    port: metrics
  {{- omit $probe "enabled" | toYaml | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Mounts of every process: dict root, part. */}}
{{- define "longwave.volumeMounts" -}}
- name: config
  mountPath: /etc/longwave/config.yaml
  subPath: config.yaml
  readOnly: true
- name: state
  mountPath: /var/lib/longwave
- name: tmp
  mountPath: /tmp
{{- if eq (include "longwave.securityMode" .root) "on" }}
- name: security
  mountPath: /etc/longwave/security
  {{- /* The process renews a certificate that the pod has made, in place. */}}
  readOnly: {{ ne .root.Values.security.source "chart" }}
{{- end }}
{{- with .part.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The volumes of every process, except the state's: dict root, part, component. */}}
{{- define "longwave.volumes" -}}
- name: config
  configMap:
    name: {{ include "longwave.fullname" .root | quote }}
- name: tmp
  emptyDir: {}
{{- include "longwave.securityVolumes" . }}
{{- with .part.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The claim of a StatefulSet's pods, or in its place a folder that lives as long as the pod: dict root, component,
     part. */}}
{{- define "longwave.stateVolume" -}}
{{- if not .part.persistence.enabled }}
- name: state
  emptyDir: {}
{{- end }}
{{- end -}}

{{- define "longwave.stateClaimSpec" -}}
accessModes: [ReadWriteOnce]
{{- with .part.persistence.storageClass }}
storageClassName: {{ . | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .part.persistence.size }}
{{- end -}}

{{- define "longwave.stateClaims" -}}
{{- if .part.persistence.enabled }}
persistentVolumeClaimRetentionPolicy:
  whenDeleted: {{ .part.persistence.whenDeleted }}
  whenScaled: {{ .part.persistence.whenScaled }}
volumeClaimTemplates:
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: state
      labels:
        {{- include "longwave.selectorLabels" . | nindent 8 }}
      {{- with .part.persistence.annotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "longwave.stateClaimSpec" . | nindent 6 }}
{{- end }}
{{- end -}}
