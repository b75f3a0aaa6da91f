{{/* Text from an object store, weights to one. */}}

{{/* dict root, name, args: a container of rclone, without its command. */}}
{{- define "longwave.rclone" -}}
{{- $store := .root.Values.workers.objectStore -}}
name: {{ .name }}
image: {{ $store.image | quote }}
imagePullPolicy: {{ $store.pullPolicy }}
env:
  # No file: the remotes are in the environment.
  - {name: RCLONE_CONFIG, value: ""}
  - {name: RCLONE_CACHE_DIR, value: /tmp/rclone}
{{- with $store.secret }}
envFrom:
  - secretRef:
      name: {{ . | quote }}
{{- end }}
securityContext:
  {{- include "longwave.containerSecurityContext" . | nindent 2 }}
resources:
  {{- toYaml $store.resources | nindent 2 }}
{{- end -}}

{{/* A list of init containers: dict root. The one that sends stays beside the worker, and ends after it. */}}
{{- define "longwave.objectStoreContainers" -}}
{{- $part := .root.Values.workers -}}
{{- $store := $part.objectStore -}}
{{- with $store.text }}
- {{ include "longwave.rclone" (dict "root" $.root "name" "text") | nindent 2 | trim }}
  command: [rclone, copy]
  args:
    - {{ . | quote }}
    - {{ $part.data.mountPath | quote }}
    {{- with $store.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumeMounts:
    - name: data
      mountPath: {{ $part.data.mountPath | quote }}
    - name: tmp
      mountPath: /tmp
{{- end }}
{{- with $store.weights }}
- {{ include "longwave.rclone" (dict "root" $.root "name" "weights") | nindent 2 | trim }}
  restartPolicy: Always
  command: [/bin/sh, -c]
  args:
    # Sends the folder's files when they change, and once more when the pod ends: a Job's worker writes its weights just
    # before. The last look at the folder is one that began after the signal.
    - |
      folder=$1
      shift
      sent= ended=
      trap 'ended=yes' TERM
      while :; do
        ending=$ended
        there=$(find "$folder" -type f ! -name '*.tmp.*' -exec stat -c '%n %i %Y %s' {} + 2>/dev/null)
        if [ "$there" != "$sent" ] && rclone copy "$folder" "$@" --exclude '*.tmp.*'; then
          sent=$there
          echo "sent $there"
        fi
        if [ -n "$ending" ] && [ "$there" = "$sent" ]; then exit 0; fi
        if [ "$ending" = "$ended" ]; then
          sleep 2 &
          wait $!
        fi
      done
    - weights
    - /var/lib/longwave/run
    - {{ . | quote }}
    {{- with $store.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumeMounts:
    - name: state
      mountPath: /var/lib/longwave
      readOnly: true
    - name: tmp
      mountPath: /tmp
{{- end }}
{{- end -}}
