{{/* How a Service outside is reached: the values of an `external`. Behind a load balancer only nodes that have the pod are
     asked; a node's port is asked of any node. */}}
{{- define "longwave.external" -}}
type: {{ .type }}
externalTrafficPolicy: {{ .externalTrafficPolicy | default (ternary "Cluster" "Local" (eq .type "NodePort")) }}
{{- if eq .type "LoadBalancer" }}
{{- with .loadBalancerClass }}
loadBalancerClass: {{ . }}
{{- end }}
{{- with .loadBalancerSourceRanges }}
loadBalancerSourceRanges:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* dict root, component, part, and minAvailable for pods of a Job: Kubernetes can't count a Job's pods otherwise. */}}
{{- define "longwave.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "longwave.metadata" . | nindent 2 }}
spec:
  {{- if hasKey . "minAvailable" }}
  minAvailable: {{ .minAvailable }}
  {{- else }}
  maxUnavailable: {{ .part.podDisruptionBudget.maxUnavailable }}
  {{- end }}
  # A pod that isn't ready may always be moved: it can't be waited for.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "longwave.selectorLabels" . | nindent 6 }}
{{- end -}}

{{/* Of a StatefulSet: the values of its part. */}}
{{- define "longwave.updateStrategy" -}}
updateStrategy:
  type: {{ .updateStrategy.type }}
  {{- if eq .updateStrategy.type "RollingUpdate" }}
  rollingUpdate:
    partition: {{ .updateStrategy.partition }}
  {{- end }}
{{- end -}}
