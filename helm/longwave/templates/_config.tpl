{{/* The run's configuration: the values, and settings that only the chart knows. */}}

{{/* "on" or "off". YAML reads a bare on as true. */}}
{{- define "longwave.securityMode" -}}
{{- $mode := toString .Values.security.mode -}}
{{- if has $mode (list "on" "true") }}on{{ else }}off{{ end -}}
{{- end -}}

{{/* How many workers the run waits for. */}}
{{- define "longwave.runWorkers" -}}
{{- dig "run" "workers" 4 .Values.config | float64 | int -}}
{{- end -}}

{{- define "longwave.config" -}}
{{- /* The command line sets a process's listen address and its authority. */ -}}
{{- $elsewhere := dict "metrics" (list "listen") "security" (list "authority") -}}
{{- $given := .Values.config -}}
{{- $managed := dict
      "run" (dict "shards" (int .Values.shards.replicas))
      "cluster" (dict "coordinator" (printf "%s:7070" (include "longwave.coordinatorHost" .)) "shard_host" (include "longwave.anyHost" .))
      "security" (dict "mode" (include "longwave.securityMode" .) "folder" "/etc/longwave/security") -}}
{{- range $section, $unused := $given -}}
{{- range $key := concat (get $managed $section | default dict | keys) (get $elsewhere $section | default list) -}}
{{- if hasKey (get $given $section | default dict) $key -}}
{{- $why := get (dict "run" "it is shards.replicas" "security" "see the values under security") $section | default "the chart knows where its processes listen and are reached" -}}
{{- fail (printf "config.%s.%s is the chart's to set: %s" $section $key $why) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $own := dict "run" (dict "name" (ternary .Release.Name (include "longwave.fullname" .) .Chart.IsRoot)) -}}
{{- with .Values.workers }}
{{- if .command }}
{{- $_ := set $own "model" (dict "kind" "external") }}
{{- $_ := set (get $own "run") "start" "member" }}
{{- end }}
{{- if ne .kind "None" }}
{{- $most := dig "cluster" "workers_max" 0 $given | float64 | int | default (max 64 (mul 2 (include "longwave.runWorkers" $ | int)) | int) }}
{{- if gt (int .replicas) $most }}
{{- fail (printf "workers.replicas: got %d, but the run takes %d members at once, wanted at most that many, or a larger config.cluster.workers_max" (int .replicas) $most) }}
{{- end }}
{{- if or .data.existingClaim .data.configMap .objectStore.text }}
{{- $_ := set $own "data" (dict "path" .data.mountPath) }}
{{- else if .command }}
{{- /* An external model has data of its own. */ -}}
{{- else if not (dig "data" "path" "" $given) }}
{{- fail "workers.data: wanted existingClaim or configMap, workers.objectStore.text or config.data.path: the image has no text of its own" }}
{{- end }}
{{- end }}
{{- end }}
{{- $config := mergeOverwrite $own (deepCopy $given) $managed -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The number of shards is a property of the run, since it cuts the model. */}}
{{- define "longwave.checkShards" -}}
{{- $name := printf "%s-shard" (include "longwave.fullname" .) -}}
{{- $there := lookup "apps/v1" "StatefulSet" .Release.Namespace $name -}}
{{- if $there -}}
{{- $was := int $there.spec.replicas -}}
{{- if and (gt $was 0) (ne $was (int .Values.shards.replicas)) -}}
{{- fail (printf "shards.replicas: got %d, but the run has %d shards, and that can't change: install another release" (int .Values.shards.replicas) $was) -}}
{{- end -}}
{{- end -}}
{{- end -}}
