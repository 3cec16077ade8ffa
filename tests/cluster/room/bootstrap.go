package room

import (
	"context"

	rbac "k8s.io/api/rbac/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const dnsUser = "system:coredns"

// bootstrap creates the objects every cluster has that the API server does not make itself.
func bootstrap(ctx context.Context, client kubernetes.Interface) error {
	create := []func() error{
		func() error {
			_, err := client.StorageV1().StorageClasses().Create(ctx, defaultStorageClass(), meta.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.RbacV1().ClusterRoles().Create(ctx, dnsRole(), meta.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, dnsRoleBinding(), meta.CreateOptions{})
			return err
		},
	}
	for _, object := range create {
		if err := object(); err != nil && !errors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// defaultStorageClass makes volumes out of directories of the node, as those of clouds do: once a pod that wants one has
// a node.
func defaultStorageClass() *storage.StorageClass {
	mode := storage.VolumeBindingWaitForFirstConsumer
	return &storage.StorageClass{
		ObjectMeta: meta.ObjectMeta{
			Name:        "standard",
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner:       "kubernetes.io/host-path",
		VolumeBindingMode: &mode,
	}
}

func dnsRole() *rbac.ClusterRole {
	read := []string{"list", "watch"}
	return &rbac.ClusterRole{
		ObjectMeta: meta.ObjectMeta{Name: dnsUser},
		Rules: []rbac.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"namespaces", "pods", "services"}, Verbs: read},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		},
	}
}

func dnsRoleBinding() *rbac.ClusterRoleBinding {
	return &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: dnsUser},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: dnsUser},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: dnsUser}},
	}
}
