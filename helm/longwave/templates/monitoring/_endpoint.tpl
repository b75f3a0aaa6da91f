{{/* How both monitors scrape a run's processes. */}}

{{/* A duration in milliseconds. */}}
{{- define "longwave.milliseconds" -}}
{{- $units := dict "d" 86400000 "h" 3600000 "m" 60000 "s" 1000 "ms" 1 -}}
{{- $total := 0 -}}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 -}}
{{- $total = add $total (mul (regexFind "[0-9]+" . | int64) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $total -}}
{{- end -}}

{{/* dict key (the monitor's name in the values), monitor (its values). The Prometheus operator leaves out a monitor whose scrapes may
     take longer than its interval, and only the operator's log says so. */}}
{{- define "longwave.endpoint" -}}
{{- with .monitor -}}
{{- if gt (include "longwave.milliseconds" .scrapeTimeout | int64) (include "longwave.milliseconds" .interval | int64) -}}
{{- fail (printf "metrics.%s.scrapeTimeout: got %s, wanted at most the interval, %s" $.key .scrapeTimeout .interval) -}}
{{- end -}}
port: metrics
interval: {{ .interval }}
scrapeTimeout: {{ .scrapeTimeout }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
{{- end -}}
