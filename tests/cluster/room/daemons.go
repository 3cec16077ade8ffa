package room

import "fmt"

// daemon is one long-running part of the cluster.
type daemon struct {
	name string
	// command is the whole command line.
	command []string
	// parallel lets it work on several processors at a time.
	parallel bool
}

// part is a daemon that is a subcommand of this program.
func (s Settings) part(name string, flags ...string) daemon {
	return daemon{name: name, command: append([]string{s.Program, name}, flags...)}
}

// foundation is what the API server and the images need; these start first, all at once.
func (s Settings) foundation() []daemon {
	return []daemon{
		s.part("etcd",
			"--data-dir=/var/lib/etcd",
			"--listen-client-urls=http://127.0.0.1:2379",
			"--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380",
			// A test cluster does not outlive its host; its disk must not slow it.
			"--unsafe-no-fsync",
			"--log-level=warn",
		),
		s.apiserver(),
		s.part("registry", "--listen="+s.RegistryAddress(), "--directory=/var/lib/registry"),
		s.containerd(),
	}
}

func (s Settings) containerd() daemon {
	return daemon{name: "containerd", command: []string{"containerd", "--config", s.Config("containerd.toml")}}
}

func (s Settings) apiserver() daemon {
	server := s.part("kube-apiserver",
		"--advertise-address="+s.Node.Address,
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--client-ca-file="+s.PKI("ca.crt"),
		"--enable-admission-plugins=NodeRestriction",
		// Fair queuing of requests would take a twentieth of the server's time.
		"--enable-priority-and-fairness=false",
		"--etcd-servers=http://127.0.0.1:2379",
		"--kubelet-certificate-authority="+s.PKI("ca.crt"),
		"--kubelet-client-certificate="+s.PKI("apiserver-client.crt"),
		"--kubelet-client-key="+s.PKI("apiserver-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		fmt.Sprintf("--secure-port=%d", apiPort),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.PKI("service-accounts.key"),
		"--service-account-signing-key-file="+s.PKI("service-accounts.key"),
		"--service-cluster-ip-range="+serviceRange,
		"--tls-cert-file="+s.PKI("apiserver.crt"),
		"--tls-private-key-file="+s.PKI("apiserver.key"),
		"--token-auth-file="+s.PKI("tokens.csv"),
	)
	if s.Audited {
		server.command = append(server.command,
			"--audit-policy-file="+s.Config("audit.yaml"),
			"--audit-log-path="+s.AuditLog(),
			// One file, however long.
			"--audit-log-maxsize=100000",
		)
	}
	server.parallel = true
	return server
}

// clients are the daemons that need an API server which answers.
func (s Settings) clients() []daemon {
	return append(s.nodeClients(),
		s.part("kube-controller-manager",
			"--bind-address=127.0.0.1",
			"--cluster-signing-cert-file="+s.PKI("ca.crt"),
			"--cluster-signing-key-file="+s.PKI("ca.key"),
			"--enable-hostpath-provisioner=true",
			"--kube-api-burst=200",
			"--kube-api-qps=100",
			"--kubeconfig="+s.Config("kube-controller-manager.kubeconfig"),
			"--leader-elect=false",
			"--root-ca-file="+s.PKI("ca.crt"),
			"--service-account-private-key-file="+s.PKI("service-accounts.key"),
			"--use-service-account-credentials=true",
		),
		s.part("kube-scheduler",
			"--bind-address=127.0.0.1",
			"--kubeconfig="+s.Config("kube-scheduler.kubeconfig"),
			"--leader-elect=false",
			// The scheduler forgets a pod whose claims are bound just when it is found unschedulable: by default for five
			// minutes.
			"--pod-max-in-unschedulable-pods-duration=1s",
		),
		s.part("coredns", "-conf", s.Config("Corefile")),
	)
}

// nodeClients are those that run on every node.
func (s Settings) nodeClients() []daemon {
	return []daemon{
		s.part("kubelet",
			"--config="+s.Config("kubelet.yaml"),
			// How often the usage of containers is measured: nothing here reads it.
			"--housekeeping-interval=1m",
			"--hostname-override="+s.Node.Name,
			"--kubeconfig="+s.Config("kubelet.kubeconfig"),
			"--node-ip="+s.Node.Address,
			"--node-labels=topology.kubernetes.io/region=us-east-1,topology.kubernetes.io/zone="+s.Node.Zone,
			"--register-with-taints="+s.Taints,
		),
		s.part("kube-proxy", "--config="+s.Config("kube-proxy.yaml")),
	}
}
