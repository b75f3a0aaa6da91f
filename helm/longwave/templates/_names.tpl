{{/* Names, labels, images and addresses. */}}

{{- define "longwave.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 40 characters: "-coordinator-headless" and what a StatefulSet adds to its pods' labels still fit in 63. What a
     JobSet adds does not: longwave.workerJobName cuts that name further. */}}
{{- define "longwave.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a part: dict root, component. Never changes in the life of a release. */}}
{{- define "longwave.selectorLabels" -}}
app.kubernetes.io/name: {{ include "longwave.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* name, namespace, labels and annotations of an object: dict root, component, and where needed name, labels,
     annotations. */}}
{{- define "longwave.metadata" -}}
name: {{ .name | default (printf "%s-%s" (include "longwave.fullname" .root) .component) }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "longwave.selectorLabels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/part-of: longwave
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
  {{- range $from := list .root.Values.commonLabels (.labels | default dict) }}
  {{- with $from }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* dict root, image (the values of one image). */}}
{{- define "longwave.image" -}}
{{- $registry := .root.Values.images.registry | trimSuffix "/" -}}
{{- if $registry }}{{ $registry }}/{{ end -}}
{{- .image.repository -}}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{- define "longwave.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "longwave.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The domain of a Service: dict root, service. */}}
{{- define "longwave.serviceHost" -}}
{{- printf "%s.%s.svc.%s" .service .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}

{{- define "longwave.coordinatorHost" -}}
{{- $service := printf "%s-coordinator" (include "longwave.fullname" .) -}}
{{- include "longwave.serviceHost" (dict "root" . "service" $service) -}}
{{- end -}}

{{- define "longwave.shardDomain" -}}
{{- $service := printf "%s-shard" (include "longwave.fullname" .) -}}
{{- include "longwave.serviceHost" (dict "root" . "service" $service) -}}
{{- end -}}

{{- define "longwave.workerDomain" -}}
{{- $service := printf "%s-worker" (include "longwave.fullname" .) -}}
{{- include "longwave.serviceHost" (dict "root" . "service" $service) -}}
{{- end -}}

{{/* Where workers reach the shards outside, in their order, separated by commas: a shard takes the one at its
     index. */}}
{{- define "longwave.externalAddresses" -}}
{{- $external := .Values.shards.external -}}
{{- $count := int .Values.shards.replicas -}}
{{- if and $external.hosts (ne (len $external.hosts) $count) -}}
{{- fail (printf "shards.external.hosts: got %d, wanted one for each of the %d shards" (len $external.hosts) $count) -}}
{{- end -}}
{{- if not (or $external.hosts $external.hostTemplate) -}}
{{- fail "shards.external needs hostTemplate (or hosts): the names or addresses under which workers reach the shards" -}}
{{- end -}}
{{- if and (not $external.hosts) (eq $external.type "LoadBalancer") (gt $count 1) (not (contains "{index}" $external.hostTemplate)) -}}
{{- fail (printf "shards.external.hostTemplate: got %q for %d load balancers, wanted {index} in it" $external.hostTemplate $count) -}}
{{- end -}}
{{- $addresses := list -}}
{{- range $index := until $count -}}
{{- $host := $external.hostTemplate | replace "{index}" (toString $index) -}}
{{- if $external.hosts }}{{ $host = index $external.hosts $index }}{{ end -}}
{{- $port := int $external.port -}}
{{- if eq $external.type "NodePort" }}{{ $port = add (int $external.nodePortBase) $index }}{{ end -}}
{{- $addresses = append $addresses (printf "tcp://%s:%d" $host $port) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}
