{{/* A worker's pod, the same for a StatefulSet and for Jobs. */}}

{{/* Names: a StatefulSet's pod uses its own name; a Job's pod, whose name ends at random, uses its index. */}}
{{- define "longwave.workerEnv" -}}
{{- if eq .Values.workers.kind "StatefulSet" }}
- name: WORKER_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- else }}
- name: WORKER_INDEX
  valueFrom:
    fieldRef:
      fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
- name: WORKER_NAME
  value: {{ include "longwave.fullname" . }}-worker-$(WORKER_INDEX)
{{- end }}
{{- end -}}

{{/* The environment of a user's command; see cli/worker_command.h. */}}
{{- define "longwave.workerCommandEnv" -}}
{{- if .Values.workers.command -}}
{{- $security := ternary "/etc/longwave/security" "off" (eq (include "longwave.securityMode" .) "on") -}}
- {name: LONGWAVE_COORDINATOR, value: {{ printf "%s:7070" (include "longwave.coordinatorHost" .) | quote }}}
- {name: LONGWAVE_NAME, value: $(WORKER_NAME)}
- {name: LONGWAVE_STATE_DIR, value: /var/lib/longwave/state}
- {name: LONGWAVE_RUN_DIR, value: /var/lib/longwave/run}
- {name: LONGWAVE_WORKERS, value: {{ include "longwave.runWorkers" . | quote }}}
- {name: LONGWAVE_METRICS, value: {{ printf "%s:9464" (include "longwave.anyHost" .) | quote }}}
- {name: LONGWAVE_SECURITY, value: {{ $security | quote }}}
{{- if .Values.workers.threads }}
- {name: OMP_NUM_THREADS, value: {{ .Values.workers.threads | int | quote }}}
{{- end }}
{{- end -}}
{{- end -}}

{{/* The size of /dev/shm; empty: the container runtime's. */}}
{{- define "longwave.workerSharedMemory" -}}
{{- $gpu := .Values.workers.gpu -}}
{{- $gpus := int $gpu.count -}}
{{- $gpu.sharedMemory | default (ternary (printf "%dGi" $gpus) "" (and $gpu.enabled (gt $gpus 1))) -}}
{{- end -}}

{{- define "longwave.workerResources" -}}
{{- $resources := deepCopy .resources -}}
{{- if .gpu.enabled -}}
{{- $gpu := dict .gpu.resource (int .gpu.count) -}}
{{- $resources = merge (dict "limits" $gpu "requests" (deepCopy $gpu)) $resources -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* dict root, restartPolicy. */}}
{{- define "longwave.workerPod" -}}
{{- $part := .root.Values.workers }}
{{- $image := include "longwave.image" (dict "root" .root "image" .root.Values.images.worker) }}
{{- /* An image of the user's may lack the command longwave, which makes the certificate. */}}
{{- $own := ternary .root.Values.images.server .root.Values.images.worker (not (empty $part.command)) }}
{{- $tolerations := list }}
{{- if and $part.gpu.enabled $part.gpu.toleration }}
{{- range list $part.gpu.resource (regexReplaceAll "/.*" $part.gpu.resource "/gpu") | uniq }}
{{- $tolerations = append $tolerations (dict "key" . "operator" "Exists" "effect" "NoSchedule") }}
{{- end }}
{{- end }}
{{- $context := dict "root" .root "component" "worker" "part" $part "tolerations" $tolerations }}
{{- $env := include "longwave.workerEnv" .root | fromYamlArray }}
{{- if and $part.gpu.enabled (gt (int $part.gpu.count) 1) (not $part.command) }}
{{- fail (printf "workers.gpu.count: got %d, wanted 1 and more workers.replicas, since longwave-worker computes on one GPU; or an image with the Python package (helm/images/Containerfile.python) and workers.command: [torchrun, --standalone, --nproc-per-node=gpu, train.py]" (int $part.gpu.count)) }}
{{- end }}
{{- $sharedMemory := include "longwave.workerSharedMemory" .root }}
metadata:
  {{- include "longwave.podMetadata" $context | nindent 2 }}
spec:
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- if and $part.gpu.enabled $part.gpu.runtimeClassName }}
  runtimeClassName: {{ $part.gpu.runtimeClassName | quote }}
  {{- end }}
  {{- include "longwave.podSettings" $context | nindent 2 }}
  {{- include "longwave.initContainers" (merge (dict "image" $own "role" "worker/$(WORKER_NAME)" "dns" list "env" $env "more" (include "longwave.objectStoreContainers" $context | fromYamlArray)) $context) | nindent 2 }}
  containers:
    - name: worker
      image: {{ $image }}
      imagePullPolicy: {{ include "longwave.pullPolicy" (dict "root" .root "image" .root.Values.images.worker) }}
      {{- with $part.command }}
      command:
        {{- toYaml . | nindent 8 }}
      {{- with $part.extraArgs }}
      args:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- else }}
      command: [longwave-worker]
      args:
        - --config=/etc/longwave/config.yaml
        - --name=$(WORKER_NAME)
        - --metrics={{ include "longwave.anyHost" .root }}:9464
        - --run-dir=/var/lib/longwave/run
        - --state-dir=/var/lib/longwave/state
        {{- if eq $part.kind "StatefulSet" }}
        # A pod that ends is started again: when the run is over, it stays.
        - --stay-when-done
        {{- else }}
        # A Job takes a pod that ends with 0 for a worker that is done. One that is told to leave, by a drained node say, is not.
        - --fail-when-told-to-end
        {{- end }}
        {{- if $part.gpu.enabled }}
        - --device=cuda
        {{- end }}
        {{- if $part.threads }}
        - --threads={{ int $part.threads }}
        {{- end }}
        {{- with $part.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      env:
        {{- toYaml (concat $env (include "longwave.workerCommandEnv" .root | fromYamlArray) ($part.extraEnv | default list)) | nindent 8 }}
      {{- with include "longwave.envFrom" $part }}
      {{- . | nindent 6 }}
      {{- end }}
      ports:
        - {name: metrics, containerPort: 9464}
      {{- include "longwave.httpProbes" $context | nindent 6 }}
      resources:
        {{- include "longwave.workerResources" $part | nindent 8 }}
      securityContext:
        {{- include "longwave.containerSecurityContext" $context | nindent 8 }}
      volumeMounts:
        {{- include "longwave.volumeMounts" $context | nindent 8 }}
        {{- if $sharedMemory }}
        - name: shared-memory
          mountPath: /dev/shm
        {{- end }}
        {{- if or $part.data.existingClaim $part.data.configMap $part.objectStore.text }}
        - name: data
          mountPath: {{ $part.data.mountPath | quote }}
          readOnly: true
        {{- end }}
  volumes:
    {{- include "longwave.volumes" $context | nindent 4 }}
    {{- with $sharedMemory }}
    - name: shared-memory
      emptyDir:
        medium: Memory
        sizeLimit: {{ . }}
    {{- end }}
    {{- $texts := list }}
    {{- if $part.data.existingClaim }}{{ $texts = append $texts "existingClaim" }}{{ end }}
    {{- if $part.data.configMap }}{{ $texts = append $texts "configMap" }}{{ end }}
    {{- if $part.objectStore.text }}{{ $texts = append $texts "objectStore.text" }}{{ end }}
    {{- if gt (len $texts) 1 }}
    {{- fail (printf "workers.data: got %s, wanted one of them" (join " and " $texts)) }}
    {{- end }}
    {{- with $part.objectStore }}
    {{- if .text }}
    - name: data
      emptyDir:
        sizeLimit: {{ .textSize }}
    {{- end }}
    {{- end }}
    {{- with $part.data.existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ . | quote }}
        readOnly: true
    {{- end }}
    {{- with $part.data.configMap }}
    - name: data
      configMap:
        name: {{ . | quote }}
    {{- end }}
    {{- if and $part.persistence.enabled (ne $part.kind "StatefulSet") }}
    - name: state
      ephemeral:
        volumeClaimTemplate:
          metadata:
            labels:
              {{- include "longwave.selectorLabels" $context | nindent 14 }}
            {{- with $part.persistence.annotations }}
            annotations:
              {{- toYaml . | nindent 14 }}
            {{- end }}
          spec:
            {{- include "longwave.stateClaimSpec" $context | nindent 12 }}
    {{- else }}
    {{- include "longwave.stateVolume" $context | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* A Job permits changes of its number of pods, but not of the pods; a JobSet permits none: another template is
     another Job. */}}
{{- define "longwave.workerJobName" -}}
{{- $fixed := list (include "longwave.workerPod" (dict "root" . "restartPolicy" "Never")) (omit .Values.workers.job "labels" "annotations") -}}
{{- if eq .Values.workers.kind "JobSet" }}{{ $fixed = append $fixed .Values.workers.replicas }}{{ end -}}
{{- /* A JobSet's pods have names NAME-worker-0-9999-abcde, of at most 63 characters. */ -}}
{{- $fullname := include "longwave.fullname" . -}}
{{- if eq .Values.workers.kind "JobSet" }}{{ $fullname = $fullname | trunc 27 | trimSuffix "-" }}{{ end -}}
{{- printf "%s-worker-%s" $fullname (toJson $fixed | sha256sum | trunc 8) -}}
{{- end -}}

{{/* Of the Job or JobSet itself, by which a queue finds it. */}}
{{- define "longwave.workerJobMetadata" -}}
{{- $job := .Values.workers.job -}}
{{- include "longwave.metadata" (dict "root" . "component" "worker" "name" (include "longwave.workerJobName" .) "labels" $job.labels "annotations" $job.annotations) -}}
{{- end -}}

{{- define "longwave.workerJobSpec" -}}
{{- $part := .Values.workers -}}
completionMode: Indexed
completions: {{ int $part.replicas }}
parallelism: {{ int $part.replicas }}
backoffLimitPerIndex: {{ int64 $part.job.backoffLimitPerIndex }}
# A worker that fails for good does not end the others.
maxFailedIndexes: {{ int $part.replicas }}
{{- with $part.job.ttlSecondsAfterFinished }}
ttlSecondsAfterFinished: {{ int64 . }}
{{- end }}
{{- with $part.job.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ int64 . }}
{{- end }}
podFailurePolicy:
  rules:
    # A worker that was told to leave, by a drained node or for a pod of higher priority, ended with status 143, which
    # is no failure of its own: another pod takes its index.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
          status: "True"
template:
  {{- include "longwave.workerPod" (dict "root" . "restartPolicy" "Never") | nindent 2 }}
{{- end -}}
