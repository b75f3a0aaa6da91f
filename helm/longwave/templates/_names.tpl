{{/* Names, labels, images and addresses. */}}

{{/* dict text, size: the text, of at most so many characters. One that is cut ends with a hash of the whole, so that two stay
     two. */}}
{{- define "longwave.cut" -}}
{{- if le (len .text) .size }}{{ .text | trimSuffix "-" }}{{ else }}{{ trunc (sub .size 7 | int) .text | trimSuffix "-" }}-{{ sha256sum .text | trunc 6 }}{{ end -}}
{{- end -}}

{{- define "longwave.name" -}}
{{- include "longwave.cut" (dict "text" (default .Chart.Name .Values.nameOverride) "size" 40) -}}
{{- end -}}

{{/* At most 40 characters: "-coordinator-headless" and a StatefulSet's additions to its pods' labels still fit in 63. A
     JobSet's additions do not: longwave.workerJobName cuts that name further. A part of another chart is never called by the
     release alone, as the parent and its other parts may be. */}}
{{- define "longwave.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := printf "%s-%s" .Release.Name $name -}}
{{- if .Values.fullnameOverride }}{{ $full = .Values.fullnameOverride }}{{ else if and .Chart.IsRoot (contains $name .Release.Name) }}{{ $full = .Release.Name }}{{ end -}}
{{- $full = include "longwave.cut" (dict "text" $full "size" 40) -}}
{{- /* A Service's name is stricter than a release's. */ -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $full) -}}
{{- fail (printf "the release's name: got %q, by which Services would be called %s-…, wanted a letter first, and lower-case letters, digits and - alone; or set fullnameOverride" .Release.Name $full) -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{/* The selector of a part's pods: dict root, component. Never changes in the life of a release. Names are quoted, here and in all
     templates, since YAML reads a namespace 2024 as a number and a release true as a boolean. */}}
{{- define "longwave.selectorLabels" -}}
app.kubernetes.io/name: {{ include "longwave.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* A map of several, as YAML; the last value of a key counts. */}}
{{- define "longwave.together" -}}
{{- $all := dict -}}
{{- range . }}{{ range $key, $value := . }}{{ $_ := set $all $key $value }}{{ end }}{{ end -}}
{{- with $all }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* Refuses labels by which the chart, Kubernetes or Helm finds objects, or replaces pods. */}}
{{- define "longwave.checkMetadata" -}}
{{- $labels := dict
      "keys" (list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component"
        "app.kubernetes.io/managed-by" "helm.sh/chart" "longwave.scrape")
      "paths" (list "commonLabels" "coordinator.podLabels" "shards.podLabels" "workers.podLabels" "workers.job.labels"
        "metrics.serviceMonitor.labels" "metrics.podMonitor.labels")
      "why" "objects are found by it" -}}
{{- $annotations := dict
      "keys" (list "checksum/config")
      "paths" (list "coordinator.podAnnotations" "shards.podAnnotations" "workers.podAnnotations")
      "why" "pods are replaced by it" -}}
{{- range $reserved := list $labels $annotations -}}
{{- range $path := $reserved.paths -}}
{{- $given := $.Values -}}
{{- range splitList "." $path }}{{ $given = get $given . | default dict }}{{ end -}}
{{- range $key := $reserved.keys -}}
{{- if hasKey $given $key }}{{ fail (printf "%s: got %s, which is the chart's to set: %s" $path $key $reserved.why) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* name, namespace, labels and annotations of an object: dict root, component, and where needed name, labels,
     annotations. */}}
{{- define "longwave.metadata" -}}
name: {{ .name | default (printf "%s-%s" (include "longwave.fullname" .root) .component) | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- include "longwave.selectorLabels" . | nindent 2 }}
  {{- $own := dict
        "app.kubernetes.io/version" .root.Chart.AppVersion
        "app.kubernetes.io/part-of" "longwave"
        "app.kubernetes.io/managed-by" .root.Release.Service
        "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") }}
  {{- include "longwave.checkMetadata" .root }}
  {{- include "longwave.together" (list $own .root.Values.commonLabels (.labels | default dict)) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where the images are: the chart's own value, or else a parent chart's for all its parts. */}}
{{- define "longwave.registry" -}}
{{- .Values.images.registry | default (.Values.global | default dict).imageRegistry | default "" | trimSuffix "/" -}}
{{- end -}}

{{/* The Secrets for pulling images, as YAML. A parent chart's may be names alone. */}}
{{- define "longwave.pullSecrets" -}}
{{- $secrets := .Values.images.pullSecrets | default list -}}
{{- range (.Values.global | default dict).imagePullSecrets -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $secrets }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* dict root, image (the values of one image). */}}
{{- define "longwave.image" -}}
{{- with include "longwave.registry" .root }}{{ . }}/{{ end -}}
{{- .image.repository -}}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{/* Without a registry a kubelet would pull from Docker Hub, which has none of our images: dict root, image. */}}
{{- define "longwave.pullPolicy" -}}
{{- $known := or (include "longwave.registry" .root) (contains "/" .image.repository) -}}
{{- .root.Values.images.pullPolicy | default (ternary "IfNotPresent" "Never" (not (empty $known))) -}}
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

{{/* The host for listening on all addresses of a pod. */}}
{{- define "longwave.anyHost" -}}
{{- if eq .Values.ipFamily "IPv6" }}[::]{{ else }}0.0.0.0{{ end -}}
{{- end -}}

{{/* A host before a port: an IPv6 address in brackets. */}}
{{- define "longwave.hostBeforePort" -}}
{{- if regexMatch "^[^\\[]*:.*:" . }}[{{ . }}]{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{/* The shards' outside addresses for workers, in their order, separated by commas: a shard takes the one at its index.
     */}}
{{- define "longwave.externalAddresses" -}}
{{- $external := .Values.shards.external -}}
{{- $count := int .Values.shards.replicas -}}
{{- if and $external.hosts (ne (len $external.hosts) $count) -}}
{{- fail (printf "shards.external.hosts: got %d, wanted one for each of the %d shards" (len $external.hosts) $count) -}}
{{- end -}}
{{- if not (or $external.hosts $external.hostTemplate) -}}
{{- fail "shards.external needs hostTemplate (or hosts): the names or addresses under which workers reach the shards" -}}
{{- end -}}
{{- $addresses := list -}}
{{- range $index := until $count -}}
{{- $host := $external.hostTemplate | replace "{index}" (toString $index) -}}
{{- if $external.hosts }}{{ $host = index $external.hosts $index }}{{ end -}}
{{- $port := int $external.port -}}
{{- if eq $external.type "NodePort" }}{{ $port = add (int $external.nodePortBase) $index }}{{ end -}}
{{- $addresses = append $addresses (printf "tcp://%s:%d" (include "longwave.hostBeforePort" $host) $port) -}}
{{- end -}}
{{- if ne (len (uniq $addresses)) $count -}}
{{- fail (printf "shards.external: got %s, wanted an address of its own for each shard: {index} in hostTemplate, or hosts that differ" (join ", " $addresses)) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}
