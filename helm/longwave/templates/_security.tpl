{{/* Certificates of the pods. */}}

{{- define "longwave.authoritySecret" -}}
{{- $own := printf "%s-authority" (include "longwave.fullname" .) -}}
{{- ternary (.Values.security.chart.existingAuthority | default $own) $own (eq .Values.security.source "chart") -}}
{{- end -}}

{{/* The Secret with a part's certificate, unless the part makes its own: dict root, component (coordinator, shard,
     worker, operator). */}}
{{- define "longwave.certificateSecret" -}}
{{- $security := .root.Values.security -}}
{{- if eq $security.source "secret" -}}
{{- $key := dict "shard" "shards" "worker" "workers" | dig .component .component -}}
{{- $name := get $security.secret $key -}}
{{- if not $name }}{{ fail (printf "security.secret.%s: wanted the name of a Secret, as security.source is secret" $key) }}{{ end -}}
{{- $name -}}
{{- else -}}
{{- printf "%s-%s-tls" (include "longwave.fullname" .root) .component -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the authority's key, by which the coordinator issues certificates to processes that join with a
     token; empty if the chart does not have that key. */}}
{{- define "longwave.signingSecret" -}}
{{- if eq (include "longwave.securityMode" .) "on" -}}
{{- with .Values.security -}}
{{- if eq .source "secret" -}}
{{- .secret.authority -}}
{{- else if or (eq .source "chart") (not .certManager.issuerRef.name) -}}
{{- include "longwave.authoritySecret" $ -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The coordinator's outside name or address in a certificate: the brackets of an IPv6 address belong to the port.
     */}}
{{- define "longwave.coordinatorOutside" -}}
{{- .Values.coordinator.external.host | trimPrefix "[" | trimSuffix "]" -}}
{{- end -}}

{{/* dict root, component. */}}
{{- define "longwave.securityVolumes" -}}
{{- if eq (include "longwave.securityMode" .root) "on" }}
{{- $chart := eq .root.Values.security.source "chart" }}
- name: security
  {{- if $chart }}
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
  {{- else }}
  secret:
    secretName: {{ include "longwave.certificateSecret" . | quote }}
    defaultMode: 0440
  {{- end }}
{{- $signing := include "longwave.signingSecret" .root }}
{{- if and $signing (or $chart (eq .component "coordinator")) }}
- name: authority
  secret:
    secretName: {{ $signing | quote }}
    defaultMode: 0440
    {{- if eq .root.Values.security.source "certManager" }}
    # cert-manager's names for an authority are those of any certificate.
    items:
      - {key: tls.crt, path: ca.crt}
      - {key: tls.key, path: ca.key}
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The init containers of a pod: the chart's certificate, the part's (`more`, a list), the values' additions. With the
     chart's authority a pod makes its own certificate before it starts, and only this container sees the authority's
     key: dict root, component, part, image (the values of one image), role, dns (a list), env. */}}
{{- define "longwave.initContainers" -}}
{{- $certificate := and (eq (include "longwave.securityMode" .root) "on") (eq .root.Values.security.source "chart") }}
{{- $more := concat (.more | default list) (.part.initContainers | default list) }}
{{- if or $certificate $more }}
initContainers:
  {{- if $certificate }}
  - name: certificate
    image: {{ include "longwave.image" (dict "root" .root "image" .image) }}
    imagePullPolicy: {{ include "longwave.pullPolicy" (dict "root" .root "image" .image) }}
    command: [longwave, certificate, make]
    args:
      - --authority=/authority
      - --folder=/etc/longwave/security
      - --role={{ .role }}
      {{- range .dns }}
      - --dns={{ . }}
      {{- end }}
    {{- with .env }}
    env:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext:
      {{- include "longwave.containerSecurityContext" . | nindent 6 }}
    resources:
      requests: {cpu: 10m, memory: 32Mi}
      limits: {memory: 64Mi}
    volumeMounts:
      - name: authority
        mountPath: /authority
        readOnly: true
      - name: security
        mountPath: /etc/longwave/security
  {{- end }}
  {{- with $more }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}
