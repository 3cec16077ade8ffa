package room

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

func testSettings(t *testing.T) Settings {
	t.Helper()
	return newSettings("demo", t.TempDir(), "causeway-demo-0123abcd", "/cache/bin/causeway-cluster", []string{"/repo"})
}

func TestConfigurationIsWellFormed(t *testing.T) {
	s := testSettings(t)
	if err := writeConfig(s); err != nil {
		t.Fatal(err)
	}
	read := func(file string) []byte {
		content, err := os.ReadFile(s.Config(file))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	var kubelet struct{ CgroupRoot, ClusterDomain string }
	if err := yaml.Unmarshal(read("kubelet.yaml"), &kubelet); err != nil {
		t.Fatal(err)
	}
	if kubelet.CgroupRoot != "/causeway-demo-0123abcd" || kubelet.ClusterDomain != "cluster.local" {
		t.Errorf("kubelet: %+v", kubelet)
	}
	var proxy struct{ ClusterCIDR, Mode string }
	if err := yaml.Unmarshal(read("kube-proxy.yaml"), &proxy); err != nil {
		t.Fatal(err)
	}
	if proxy.ClusterCIDR != clusterRange || proxy.Mode != "nftables" {
		t.Errorf("kube-proxy: %+v", proxy)
	}
	var audit struct {
		Rules []struct{ Users []string }
	}
	if err := yaml.Unmarshal(read("audit.yaml"), &audit); err != nil {
		t.Fatal(err)
	}
	if len(audit.Rules) != 2 || len(audit.Rules[0].Users) != 2 || audit.Rules[0].Users[1] != installedUser {
		t.Errorf("audit: %+v", audit)
	}
	if !json.Valid(read("cni/10-pods.conflist")) {
		t.Error("the CNI configuration is not JSON")
	}
	if !strings.Contains(string(read("registries/_default/hosts.toml")), `[host."http://198.18.0.10:5000"]`) {
		t.Error("the registry is not the mirror of all others")
	}
}

func TestNodesDoNotMeet(t *testing.T) {
	cluster, first := netip.MustParsePrefix(clusterRange), netip.MustParsePrefix(newNode(1).PodRange)
	for n := 1; n <= 15; n++ {
		node := newNode(n)
		pods, address := netip.MustParsePrefix(node.PodRange), netip.MustParseAddr(node.Address)
		if !cluster.Overlaps(pods) || !cluster.Contains(address) {
			t.Errorf("%+v is outside the cluster", node)
		}
		if first.Contains(address) || (n > 1 && first.Overlaps(pods)) {
			t.Errorf("%+v meets the pods of the first node", node)
		}
	}
}

func TestKubeconfigsWork(t *testing.T) {
	s := testSettings(t)
	if err := writeCredentials(s); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.State, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	operator, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.State, "operator.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	const account = "system:serviceaccount:causeway-tests:causeway"
	wanted := config.BearerToken + ",admin,admin,system:masters\n" + operator.BearerToken + "," + account + "," + account +
		`,"system:serviceaccounts,system:serviceaccounts:causeway-tests"` + "\n"
	tokens, err := os.ReadFile(s.PKI("tokens.csv"))
	if err != nil || config.BearerToken == "" || operator.BearerToken == "" || string(tokens) != wanted {
		t.Errorf("tokens.csv: %s, %v", tokens, err)
	}
	if config.Host != "https://198.18.0.10:6443" || len(config.CertData) != 0 {
		t.Errorf("kubeconfig: %v", config)
	}
	daemon, err := clientcmd.BuildConfigFromFlags("", s.Config("kube-scheduler.kubeconfig"))
	if err != nil || daemon.BearerToken != "" || len(daemon.CertData) == 0 || len(daemon.KeyData) == 0 {
		t.Errorf("kubeconfig of a daemon: %v, %v", daemon, err)
	}
	key, err := os.Stat(s.PKI("ca.key"))
	if err != nil || key.Mode().Perm() != 0o600 {
		t.Errorf("ca.key: %v, %v", key, err)
	}
}
