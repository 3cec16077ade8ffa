# The documents of this folder's parent, filled in. Nothing here needs AWS.

locals {
  irsa    = var.oidc_provider != ""
  backups = length(var.backup_namespaces) > 0

  files = merge(
    {
      policy         = "policy.json"
      policy-network = "policy-network.json"
      trust          = local.irsa ? "trust-irsa.json" : "trust-pod-identity.json"
    },
    local.backups ? {
      policy-backup-operator = "policy-backup-operator.json"
      policy-backup-jobs     = "policy-backup-jobs.json"
      trust-backup-jobs      = local.irsa ? "trust-backup-jobs.json" : "trust-backup-jobs-pod-identity.json"
    } : {},
  )

  # `$${aws:…}` stays: it is IAM's own, and so is `$${NAMESPACE}` until a role of one namespace is made.
  texts = { for name, document in local.files : name => file("${path.module}/../${document}") }
  of_account = { for name, text in local.texts : name =>
    replace(replace(text, "$${ACCOUNT_ID}", var.account_id), "arn:aws:", "arn:${var.partition}:")
  }
  of_cluster = { for name, text in local.of_account : name =>
    replace(replace(text, "$${AWS_REGION}", var.region), "$${CLUSTER_NAME}", var.cluster_name)
  }
  of_issuer = { for name, text in local.of_cluster : name =>
    replace(replace(text, "$${OIDC_PROVIDER}", var.oidc_provider),
    "system:serviceaccount:causeway-system:causeway\"", "system:serviceaccount:${var.namespace}:${var.service_account}\"")
  }
  # Without what only people need: a managed policy has room for 6,144 characters.
  documents = { for name, text in local.of_issuer : name => jsonencode(jsondecode(
    replace(replace(text, "kubernetes-namespace\": \"causeway-system\"", "kubernetes-namespace\": \"${var.namespace}\""),
    "kubernetes-service-account\": \"causeway\"", "kubernetes-service-account\": \"${var.service_account}\"")
  )) }

  # Who may be a Job of backups of one namespace, by IRSA.
  trust_of_namespace = {
    for namespace in var.backup_namespaces :
    namespace => replace(lookup(local.documents, "trust-backup-jobs", ""), "$${NAMESPACE}", namespace)
  }
}
