package room

import (
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestAFurtherNodeSharesNothingButTheClusterAndItsVolumes(t *testing.T) {
	cluster := testSettings(t)
	node := cluster.node(2)
	for what, pair := range map[string][2]string{
		"state":         {cluster.State, node.State},
		"control group": {cluster.Cgroup, node.Cgroup},
		"address":       {cluster.Node.Address, node.Node.Address},
		"pods":          {cluster.Node.PodRange, node.Node.PodRange},
		"zone":          {cluster.Node.Zone, node.Node.Zone},
		"containerd":    {cluster.Data("var"), node.Data("var")},
	} {
		if pair[0] == pair[1] {
			t.Errorf("two nodes have the same %s: %s", what, pair[0])
		}
	}
	if node.Server() != cluster.Server() || node.RegistryAddress() != cluster.RegistryAddress() {
		t.Errorf("the node looks for the cluster at %s", node.Server())
	}
	if kept := strings.Join(node.Keep, " "); !strings.Contains(kept, volumes) {
		t.Errorf("the node keeps %s, not the volumes", kept)
	}
	if len(cluster.node(maxNodes).Node.PodRange) == 0 || cluster.Node != newNode(1) {
		t.Error("the cluster's own settings have changed")
	}
}

func TestAFurtherNodeIsKnownToTheClusterByItsAuthority(t *testing.T) {
	cluster := testSettings(t)
	if err := writeCredentials(cluster); err != nil {
		t.Fatal(err)
	}
	ca, err := readAuthority(cluster)
	if err != nil {
		t.Fatal(err)
	}
	node := cluster.node(2)
	if err := writeNodeCredentials(node, ca); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"kubelet-server.crt", "ca.crt"} {
		if _, err := os.Stat(node.PKI(file)); err != nil {
			t.Error(err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", node.Config("kubelet.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != cluster.Server() {
		t.Errorf("the kubelet looks for the API server at %s", config.Host)
	}
}
