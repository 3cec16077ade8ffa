{{/* Name of all objects; those of deploy/base that begin with "causeway" begin with it. */}}
{{- define "causeway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "causeway" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-causeway" (.Release.Name | trunc 31 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "causeway.serviceAccountName" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "causeway.fullname" . -}}
{{- else -}}
{{- fail "serviceAccount.create is false: name an existing service account in serviceAccount.name" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select pods: the same as in deploy/base, so that the chart can take over its objects. */}}
{{- define "causeway.selectorLabels" -}}
app.kubernetes.io/name: {{ include "causeway.fullname" . }}
{{- end -}}

{{- define "causeway.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: causeway
{{ include "causeway.selectorLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "causeway.image" -}}
{{- $global := .Values.global | default dict -}}
{{- $registry := $global.imageRegistry | default .Values.image.registry -}}
{{- $repository := required "image.repository is missing: name the repository that you pushed Causeway's image to (docs/install.md)" .Values.image.repository -}}
{{- with $registry }}{{ . }}/{{ end }}{{ $repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end -}}
{{- end -}}

{{/* The role of the operator, if the source of credentials needs one. */}}
{{- define "causeway.roleArn" -}}
{{- if has .Values.aws.identity (list "irsa" "webIdentity") -}}
{{- required (printf "aws.roleArn is missing: with aws.identity %s it is the ARN of the operator's IAM role (iam/README.md); with EKS Pod Identity set aws.identity=podIdentity" .Values.aws.identity) .Values.aws.roleArn -}}
{{- end -}}
{{- end -}}

{{/* The operator's options as environment variables (docs/operations.md). */}}
{{- define "causeway.options" -}}
{{- $fullname := include "causeway.fullname" . -}}
{{- $options := dict
  "CLUSTER_NAME" (required "clusterName is missing: it marks what this cluster owns in AWS; set it to the cluster's name and never change it" .Values.clusterName)
  "CLUSTER_UID" .Values.clusterUid
  "WATCH_NAMESPACE" (join "," .Values.watchNamespaces)
  "KINDS" (join "," .Values.kinds)
  "AWS_REGION" .Values.aws.region
  "AWS_ENDPOINT_URL" .Values.aws.endpointUrl
  "SWEEP_INTERVAL" .Values.sweepInterval
  "REPLACEMENT_GRACE" .Values.replacementGrace
  "DATABASE_LEASE_DURATION" .Values.databaseLeaseDuration
  "BACKUP_ROLE_ARN" .Values.backups.roleArn
  "BACKUP_POD_IDENTITY" (ternary "true" "" .Values.backups.podIdentity)
  "BACKUP_BUCKET" .Values.backups.bucket
  "BACKUP_ENDPOINTS" (join "," .Values.backups.endpoints)
  "BACKUP_REGIONS" (join "," .Values.backups.regions)
  "JOB_IMAGE" .Values.backups.jobImage
  "NETWORK_POLICY" .Values.databases.networkPolicy
  "SCRAPE_NAMESPACES" (join "," .Values.databases.scrapeNamespaces)
  "REQUIRE_AUTH" (ternary "true" "" .Values.databases.requireAuth)
  "REQUIRE_TLS" (ternary "true" "" .Values.databases.requireTls)
  "GUARDRAILS" (ternary "" "false" .Values.guardrails)
  "METRICS_AUTH" (ternary "" "false" .Values.metrics.auth)
  "LOG_FORMAT" .Values.log.format
  "LOG_LEVEL" .Values.log.level
-}}
{{- if ne $fullname "causeway" }}{{ $_ := set $options "LEASE_NAME" $fullname }}{{ end -}}
{{- if eq .Values.aws.identity "webIdentity" }}{{ $_ := set $options "AWS_ROLE_ARN" (include "causeway.roleArn" .) }}{{ end -}}
{{- $address := printf "%s:%d" .Values.metrics.address (int .Values.metrics.port) -}}
{{- if ne $address "0.0.0.0:8080" }}{{ $_ := set $options "METRICS_ADDRESS" $address }}{{ end -}}
{{- $address = printf "%s:%d" .Values.metrics.address (int .Values.metrics.tlsPort) -}}
{{- if ne $address "0.0.0.0:8443" }}{{ $_ := set $options "METRICS_TLS_ADDRESS" $address }}{{ end -}}
{{- if not (kindIs "invalid" .Values.aws.rateShare) }}{{ $_ := set $options "AWS_RATE_SHARE" (toString .Values.aws.rateShare) }}{{ end -}}
{{- if not (kindIs "invalid" .Values.securityGroupRules) }}{{ $_ := set $options "SECURITY_GROUP_RULES" (toString (int .Values.securityGroupRules)) }}{{ end -}}
{{- if not (kindIs "invalid" .Values.concurrency) }}{{ $_ := set $options "CONCURRENCY" (toString (int .Values.concurrency)) }}{{ end -}}
{{- range $name := keys $options | sortAlpha }}
{{- with get $options $name }}
{{ $name }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Rules of egress that deploy/base lacks and other values need. */}}
{{- define "causeway.egress" -}}
{{- $egress := list -}}
{{- /* The node's role and region come from its metadata service, with webIdentity the region if none is set:
       https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html */ -}}
{{- if or (eq .Values.aws.identity "other") (and (eq .Values.aws.identity "webIdentity") (not .Values.aws.region)) -}}
{{- $to := list (dict "ipBlock" (dict "cidr" "169.254.169.254/32")) (dict "ipBlock" (dict "cidr" "fd00:ec2::254/128")) -}}
{{- $egress = append $egress (dict "to" $to "ports" (list (dict "protocol" "TCP" "port" 80))) -}}
{{- end -}}
{{- /* Endpoints at other ports than those that deploy/base allows. Their addresses are not known here. */ -}}
{{- $known := list "443" "6443" -}}
{{- $ports := list -}}
{{- range $endpoint := append .Values.backups.endpoints .Values.aws.endpointUrl -}}
{{- with $endpoint -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "80" "443" (eq $url.scheme "http")) -}}
{{- if not (has $port $known) -}}
{{- $known = append $known $port -}}
{{- $ports = append $ports (dict "protocol" "TCP" "port" (int $port)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $ports -}}
{{- $egress = append $egress (dict "ports" .) -}}
{{- end -}}
{{- toYaml $egress -}}
{{- end -}}
