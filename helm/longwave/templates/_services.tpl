{{/* The type of an outside Service: the values of an `external`. A load balancer uses only nodes with the pod; a node's
     port works on any node. */}}
{{- define "longwave.external" -}}
type: {{ .type }}
externalTrafficPolicy: {{ .externalTrafficPolicy | default (ternary "Cluster" "Local" (eq .type "NodePort")) }}
{{- if eq .type "LoadBalancer" }}
{{- with .loadBalancerClass }}
loadBalancerClass: {{ . | quote }}
{{- end }}
{{- with .loadBalancerSourceRanges }}
loadBalancerSourceRanges:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A port of a Service: dict root, name, port, nodePort (if the Service has one). Meshes and gateways go by appProtocol: a
     control port is TLS between the processes, which nothing on the way ends. */}}
{{- define "longwave.servicePort" -}}
{{- $control := ternary "tls" "kubernetes.io/h2c" (eq (include "longwave.securityMode" .root) "on") -}}
- name: {{ .name }}
  port: {{ int .port }}
  targetPort: {{ .name }}
  appProtocol: {{ get (dict "control" $control "data" "tcp" "metrics" "http") .name }}
  {{- with .nodePort }}
  nodePort: {{ int . }}
  {{- end }}
{{- end -}}

{{/* dict root, component, part, and minAvailable for pods of a Job, which Kubernetes cannot count otherwise. */}}
{{- define "longwave.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "longwave.metadata" . | nindent 2 }}
spec:
  {{- if hasKey . "minAvailable" }}
  minAvailable: {{ int .minAvailable }}
  {{- else }}
  maxUnavailable: {{ toYaml .part.podDisruptionBudget.maxUnavailable }}
  {{- end }}
  # A pod that is not ready may always be moved, since waiting for it has no end.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "longwave.selectorLabels" . | nindent 6 }}
{{- end -}}

{{/* The update strategy of a StatefulSet: the values of its part. */}}
{{- define "longwave.updateStrategy" -}}
updateStrategy:
  type: {{ .updateStrategy.type }}
  {{- if eq .updateStrategy.type "RollingUpdate" }}
  rollingUpdate:
    partition: {{ int64 .updateStrategy.partition }}
  {{- end }}
{{- end -}}

{{/* Ports of the nodes end at 32767, and each leads to one Service. */}}
{{- define "longwave.checkNodePorts" -}}
{{- $shards := .Values.shards.external -}}
{{- $coordinator := .Values.coordinator.external -}}
{{- if and $shards.enabled (eq $shards.type "NodePort") -}}
{{- $first := int $shards.nodePortBase -}}
{{- $last := add $first (int .Values.shards.replicas) -1 | int -}}
{{- if gt $last 32767 -}}
{{- fail (printf "shards.external.nodePortBase: got %d for %d shards, wanted at most %d: ports of the nodes end at 32767" $first (int .Values.shards.replicas) (sub 32768 (int .Values.shards.replicas))) -}}
{{- end -}}
{{- $own := int $coordinator.nodePort -}}
{{- if and $coordinator.enabled (eq $coordinator.type "NodePort") (ge $own $first) (le $own $last) -}}
{{- fail (printf "coordinator.external.nodePort: got %d, which is a shard's: they have %d to %d" $own $first $last) -}}
{{- end -}}
{{- end -}}
{{- end -}}
