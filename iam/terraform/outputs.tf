output "role_arn" {
  description = "The chart's value aws.roleArn, with IRSA."
  value       = aws_iam_role.operator.arn
}

output "backup_role_arn" {
  description = "The chart's value backups.roleArn, with IRSA. With Pod Identity set backups.podIdentity=true instead."
  value       = local.irsa && local.backups ? "arn:${var.partition}:iam::${var.account_id}:role/${var.role_name}-backup-{namespace}" : null
}
