{{/* Names, labels, and the runbooks' address. */}}

{{- define "monitoring.fullname" -}}
{{- $full := .Values.fullnameOverride | default .Release.Name -}}
{{- /* A hash keeps two that are cut apart. */}}
{{- if gt (len $full) 40 }}{{ $full = printf "%s-%s" (trunc 33 $full | trimSuffix "-" | trimSuffix ".") (sha256sum $full | trunc 6) }}{{ end -}}
{{- $full -}}
{{- end -}}

{{/* name, namespace, labels and annotations of an object: dict root, name, labels, annotations. */}}
{{- define "monitoring.metadata" -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- $labels := dict
        "app.kubernetes.io/name" .root.Chart.Name
        "app.kubernetes.io/instance" .root.Release.Name
        "app.kubernetes.io/version" .root.Chart.AppVersion
        "app.kubernetes.io/part-of" "longwave"
        "app.kubernetes.io/managed-by" .root.Release.Service
        "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") }}
  {{- range $more := list .root.Values.commonLabels .labels }}
  {{- range $key, $value := $more }}{{ $_ := set $labels $key $value }}{{ end }}
  {{- end }}
  {{- toYaml $labels | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* All groups of the folder rules/, as YAML. */}}
{{- define "monitoring.shippedGroups" -}}
{{- $groups := list -}}
{{- range $path, $unused := .Files.Glob "rules/*.yaml" -}}
{{- $groups = concat $groups ($.Files.Get $path | fromYaml).groups -}}
{{- end -}}
{{- if not $groups }}{{ fail "the chart's folder rules/ has no rules" }}{{ end -}}
{{- toYaml $groups -}}
{{- end -}}

{{/* A text of the chart's folders, with the runbooks' address from the values: dict root, text. */}}
{{- define "monitoring.withRunbooks" -}}
{{- .text | replace "https://longwave.example/docs/how-to/runbooks/" (printf "%s/" .root.Values.runbookUrl) -}}
{{- end -}}
