# The operator's IAM role, and those of the Jobs of backups. ../README.md says what each statement is for.

locals {
  policies_of_operator = toset([for name in keys(local.documents) : name if !startswith(name, "trust") && name != "policy-backup-jobs"])
  # By Pod Identity one role serves all namespaces: EKS sets the tag that a role has by IRSA.
  backup_roles = local.irsa ? { for namespace, trust in local.trust_of_namespace : namespace => {
    name  = "${var.role_name}-backup-${namespace}"
    trust = trust
    tags  = { kubernetes-namespace = namespace }
    } } : local.backups ? { all = {
    name  = "${var.role_name}-backup"
    trust = local.documents["trust-backup-jobs"]
    tags  = {}
  } } : {}
}

resource "aws_iam_role" "operator" {
  name               = var.role_name
  description        = "The operator Causeway of the cluster ${var.cluster_name}"
  assume_role_policy = local.documents["trust"]
  tags               = var.tags
}

resource "aws_iam_policy" "operator" {
  for_each = local.policies_of_operator

  name   = "${var.role_name}-${var.cluster_name}-${each.key}"
  policy = local.documents[each.key]
  tags   = var.tags
}

resource "aws_iam_role_policy_attachment" "operator" {
  for_each = local.policies_of_operator

  role       = aws_iam_role.operator.name
  policy_arn = aws_iam_policy.operator[each.key].arn
}

resource "aws_eks_pod_identity_association" "operator" {
  count = local.irsa ? 0 : 1

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.operator.arn
}

resource "aws_iam_policy" "backup_jobs" {
  count = local.backups ? 1 : 0

  name   = "${var.role_name}-${var.cluster_name}-backup-jobs"
  policy = local.documents["policy-backup-jobs"]
  tags   = var.tags
}

resource "aws_iam_role" "backup_jobs" {
  for_each = local.backup_roles

  name               = each.value.name
  description        = "Jobs of backups of Causeway in the cluster ${var.cluster_name}"
  assume_role_policy = each.value.trust
  # The tag is the right: let only administrators set it.
  tags = merge(var.tags, each.value.tags)
}

resource "aws_iam_role_policy_attachment" "backup_jobs" {
  for_each = local.backup_roles

  role       = aws_iam_role.backup_jobs[each.key].name
  policy_arn = aws_iam_policy.backup_jobs[0].arn
}

resource "aws_eks_pod_identity_association" "backup_jobs" {
  for_each = local.irsa ? toset([]) : var.backup_namespaces

  cluster_name    = var.cluster_name
  namespace       = each.key
  service_account = "causeway-backup"
  role_arn        = aws_iam_role.backup_jobs["all"].arn
}
