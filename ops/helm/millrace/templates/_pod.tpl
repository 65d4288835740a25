{{/* What all pods have in common. In: root, part (its values), name of the part ("" for the embedded store), env, volumes and mounts as lists. */}}
{{- define "millrace.podSpec" -}}
{{- $kernel := eq .root.Values.sandbox "kernel" -}}
automountServiceAccountToken: false
{{- if $kernel }}
hostUsers: false
{{- end }}
terminationGracePeriodSeconds: 30
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: {{ ternary "Unconfined" "RuntimeDefault" $kernel }}
{{- if $kernel }}
  appArmorProfile:
    type: Unconfined
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: millrace
    image: {{ printf "%s:%s" .root.Values.image.repository .root.Values.image.tag | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    args: [start]
    envFrom:
      - configMapRef: { name: {{ .root.Release.Name }} }
    {{- with .env }}
    env: {{- toYaml . | nindent 6 }}
    {{- end }}
    ports:
      - name: http
        containerPort: 8080
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      {{- if $kernel }}
      procMount: Unmasked
      {{- end }}
      capabilities:
        drop: [ALL]
    volumeMounts:
      - name: data
        mountPath: /var/lib/millrace
      - name: tmp
        mountPath: /tmp
      {{- if include "millrace.secretSources" .root }}
      - name: secrets
        mountPath: /run/secrets/millrace
        readOnly: true
      {{- end }}
    {{- if .part.serves }}
    lifecycle:
      # Balancers learn that the pod leaves before the service stops to listen.
      preStop:
        exec: { command: [sleep, "5"] }
    {{- end }}
    startupProbe:
      httpGet: { path: /healthz, port: 8080 }
      periodSeconds: 1
      failureThreshold: 120
    livenessProbe:
      httpGet: { path: /healthz, port: 8080 }
      periodSeconds: 10
      failureThreshold: 6
    readinessProbe:
      httpGet: { path: /readyz, port: 8080 }
      periodSeconds: 5
    resources: {{- toYaml .part.resources | nindent 6 }}
volumes:
  - name: data
    {{- toYaml .data | nindent 4 }}
  - name: tmp
    emptyDir:
      medium: Memory
  {{- with include "millrace.secretSources" .root }}
  - name: secrets
    projected:
      defaultMode: 0440
      sources: {{- trim . | nindent 8 }}
  {{- end }}
{{- with .part.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The secrets that are mounted: the name of the file, and of the setting that reads it. */}}
{{- define "millrace.secrets" -}}
{{- $secrets := .Values.secrets -}}
{{- $all := dict "api-key" (dict "setting" "MILLRACE_API_KEY_FILE" "from" $secrets.apiKey) -}}
{{- if eq .Values.store "postgres" -}}
{{- $all = merge $all (dict
  "database-url" (dict "setting" "MILLRACE_DATABASE_URL_FILE" "from" (required "secrets.database: a PostgreSQL needs its URL" $secrets.database))
  "database-session-url" (dict "setting" "MILLRACE_DATABASE_SESSION_URL_FILE" "from" $secrets.databaseSession)
  "encryption-key" (dict "setting" "MILLRACE_ENCRYPTION_KEY_FILE" "from" (required "secrets.encryptionKey: nodes need the same key" $secrets.encryptionKey))) -}}
{{- end -}}
{{- range $file, $secret := $all }}
{{- if not $secret.from }}{{ $_ := unset $all $file }}{{ end }}
{{- end -}}
{{- toJson $all -}}
{{- end }}

{{- define "millrace.secretSources" -}}
{{- range $file, $secret := include "millrace.secrets" . | fromJson }}
- secret:
    name: {{ $secret.from.name }}
    items: [{ key: {{ $secret.from.key }}, path: {{ $file }} }]
{{- end }}
{{- end }}
