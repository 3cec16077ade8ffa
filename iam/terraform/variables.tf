variable "cluster_name" {
  description = "The operator's option CLUSTER_NAME. With Pod Identity it must be the name of the EKS cluster, too."
  type        = string

  validation {
    condition     = length(var.cluster_name) >= 1 && length(var.cluster_name) <= 64
    error_message = "cluster_name must have 1 to 64 characters."
  }
}

variable "account_id" {
  description = "The AWS account of the cluster: twelve digits."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "account_id must have twelve digits."
  }
}

variable "region" {
  description = "The region of the load balancers and of the buckets of backups."
  type        = string
}

variable "partition" {
  description = "aws, aws-cn (China), aws-us-gov (GovCloud) or aws-eusc (European Sovereign Cloud)."
  type        = string
  default     = "aws"

  validation {
    condition     = contains(["aws", "aws-cn", "aws-us-gov", "aws-eusc"], var.partition)
    error_message = "partition must be aws, aws-cn, aws-us-gov or aws-eusc."
  }
}

variable "oidc_provider" {
  description = "The cluster's OIDC issuer without https://, for IRSA. Empty: EKS Pod Identity."
  type        = string
  default     = ""

  validation {
    condition     = !startswith(var.oidc_provider, "https://")
    error_message = "oidc_provider must be given without https://."
  }
}

variable "namespace" {
  description = "The operator's namespace."
  type        = string
  default     = "causeway-system"
}

variable "service_account" {
  description = "The operator's service account."
  type        = string
  default     = "causeway"
}

variable "backup_namespaces" {
  description = "Namespaces whose DatabaseBackups may write into buckets. Empty: nothing of backups is made."
  type        = set(string)
  default     = []
}

variable "role_name" {
  description = "The name of the operator's role, and what the names of the roles of backups begin with."
  type        = string
  default     = "causeway"
}

variable "tags" {
  description = "Tags of the roles and policies."
  type        = map(string)
  default     = {}
}
