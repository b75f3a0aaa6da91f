{{/* Peers and rules of NetworkPolicies. */}}

{{/* The pods of a part of this release: dict root, component. */}}
{{- define "longwave.peer" -}}
- podSelector:
    matchLabels:
      {{- include "longwave.selectorLabels" . | nindent 6 }}
{{- end -}}

{{/* A list of address ranges. */}}
{{- define "longwave.addressPeers" -}}
{{- range . }}
- ipBlock:
    cidr: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "longwave.metricsIngress" -}}
- from:
    {{- toYaml (.Values.networkPolicy.metricsFrom | default (list (dict "namespaceSelector" dict))) | nindent 4 }}
  ports:
    - {port: 9464}
{{- end -}}

{{- define "longwave.dnsEgress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
  {{- with .Values.networkPolicy.dnsTo }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
