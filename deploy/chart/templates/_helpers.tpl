{{/* Names, labels and shared parts: what webhook/manifests/place.py and server.py say in Python. */}}

{{- define "rankfix.name" -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{/* Cluster-wide objects carry the namespace too, so that two installations never share one. */}}
{{- define "rankfix.wide" -}}
{{- include "rankfix.name" . }}.{{ .Release.Namespace -}}
{{- end -}}

{{- define "rankfix.secret" -}}
{{- $suffix := eq .Values.certs.mode "cert-manager" | ternary "cm-tls" "tls" -}}
{{- .Values.certs.secretName | default (printf "%s-%s" (include "rankfix.name" .) $suffix) -}}
{{- end -}}

{{- define "rankfix.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* (list . COMPONENT): the labels that tell a component's pods. */}}
{{- define "rankfix.selector" -}}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/instance: {{ include "rankfix.name" (index . 0) }}
app.kubernetes.io/name: rankfix
{{- end -}}

{{/* (list . COMPONENT) */}}
{{- define "rankfix.labels" -}}
{{ include "rankfix.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
{{- end -}}

{{/* (list . SUFFIX COMPONENT): metadata of an object in our namespace. */}}
{{- define "rankfix.metadata" -}}
name: {{ include "rankfix.name" (index . 0) }}{{ index . 1 }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "rankfix.labels" (list (index . 0) (index . 2)) | nindent 2 }}
{{- end -}}

{{/* (list . SUFFIX COMPONENT): metadata of a cluster-wide object. */}}
{{- define "rankfix.wideMetadata" -}}
name: {{ include "rankfix.wide" (index . 0) }}{{ index . 1 }}
labels:
  {{- include "rankfix.labels" (list (index . 0) (index . 2)) | nindent 2 }}
{{- end -}}

{{/* What all pods have in common: placement, user, the restricted pod security profile. */}}
{{- define "rankfix.podBase" -}}
automountServiceAccountToken: true
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "rankfix.containerBase" -}}
name: rankfix
image: {{ include "rankfix.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* Where Service and webhook configuration are. */}}
{{- define "rankfix.where" -}}
- --namespace={{ .Release.Namespace }}
- --service={{ include "rankfix.name" . }}
- --webhook-config={{ include "rankfix.wide" . }}
- --webhook=pods.rankfix.webhook
{{- end -}}

{{/* What those who make certificates are told beside that. */}}
{{- define "rankfix.certFlags" -}}
- --secret={{ include "rankfix.secret" . }}
{{- range .Values.certs.extraDnsNames }}
- --dns-name={{ . }}
{{- end }}
{{- end -}}

{{/* The expressions of the API server's CEL are written once, in webhook/manifests, and put into files/. */}}
{{- define "rankfix.cel" -}}
{{- .Files.Get "files/admission.yaml" -}}
{{- end -}}

{{- define "rankfix.namespaces" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values:
      - kube-system
      - kube-node-lease
      - {{ .Release.Namespace }}
      {{- range .Values.excludedNamespaces }}
      - {{ . }}
      {{- end }}
  - key: rankfix/inject
    operator: NotIn
    values: [disabled]
{{- end -}}
