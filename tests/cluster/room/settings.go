package room

import (
	"fmt"
	"path/filepath"
)

// Every room is a network of its own, so all clusters use the same addresses: those of RFC 2544, which no real
// network routes.
const (
	clusterRange = "198.18.0.0/16"
	serviceRange = "198.19.0.0/16"
	// The first address of the service range: the Service "kubernetes".
	apiServiceAddress = "198.19.0.1"
	apiPort           = 6443
	registryPort      = 5000
	domain            = "cluster.local"
	pauseImage        = "registry.k8s.io/pause:causeway"
	// The account of operators that run outside of pods, as those of tests do; it has what rights it is given.
	outsideNamespace = "causeway-tests"
	outsideUser      = "system:serviceaccount:" + outsideNamespace + ":causeway"
	// The account of an operator that is installed.
	installedUser = "system:serviceaccount:causeway-system:causeway"
	bridgeName    = "room0"
	// The pod ranges of more would not fit into the cluster's.
	maxNodes = 15
)

// Node is one machine of the cluster, as the rest of it sees it.
type Node struct {
	Name     string
	Address  string
	PodRange string
	MaxPods  int
	Zone     string
}

// newNode gives the n-th node (from 1) its address and pod range; the ranges of no two nodes meet.
func newNode(n int) Node {
	return Node{
		Name:     fmt.Sprintf("node-%d", n),
		Address:  fmt.Sprintf("198.18.0.%d", 9+n),
		PodRange: fmt.Sprintf("198.18.%d.0/20", 16*n),
		MaxPods:  500,
		Zone:     "us-east-1" + string(rune('a'+(n-1)%3)),
	}
}

// Settings is what every configuration file and command line is made from.
type Settings struct {
	// Name of the cluster, as the user calls it.
	Name string
	// State is the directory with everything the cluster keeps; the room goes on if nothing else is left.
	State string
	// Program is this executable.
	Program string
	// Cgroup is the cluster's own group, below the root of every hierarchy. Two clusters with the same one would
	// end each other's pods.
	Cgroup string
	// Keep lists directories that must stay visible in the room although /tmp, /var and /run are replaced.
	Keep []string
	// Node is the machine that these settings are for.
	Node Node
	// Taints of the node, as the kubelet's flag has them: `key=value:NoSchedule`, separated by commas.
	Taints string
	// VolumesInMemory keeps persistent volumes in memory.
	VolumesInMemory bool
	// Audited has the API server write down what operators ask it for.
	Audited bool
	// Control is the node with the API server, the registry and DNS.
	Control Node
}

func newSettings(name, state, cgroup, program string, keep []string) Settings {
	return Settings{
		Name:    name,
		State:   state,
		Program: program,
		Cgroup:  cgroup,
		Keep:    append([]string{state, filepath.Dir(program)}, keep...),
		Node:    newNode(1),
		Control: newNode(1),
	}
}

// node turns the cluster's settings into those of its n-th machine, which keeps its things below the cluster's.
// Volumes are the same on every node, as those of a cloud's disks are.
func (s Settings) node(n int) Settings {
	node := newNode(n)
	s.Keep = append([]string{s.State, volumes}, s.Keep...)
	s.State = filepath.Join(s.State, "nodes", node.Name)
	s.Cgroup += "/" + node.Name
	s.Node = node
	// The room has mounted them already.
	s.VolumesInMemory = false
	return s
}

// Config is the path of a generated configuration file.
func (s Settings) Config(file string) string { return filepath.Join(s.State, "config", file) }

// PKI is the path of a certificate or key.
func (s Settings) PKI(file string) string { return filepath.Join(s.State, "pki", file) }

// Log is the path of a daemon's log.
func (s Settings) Log(daemon string) string { return filepath.Join(s.State, "logs", daemon+".log") }

// Data is the path of a directory that replaces one of the host's.
func (s Settings) Data(directory string) string { return filepath.Join(s.State, "data", directory) }

// AuditLog is where the API server writes down what operators ask it for.
func (s Settings) AuditLog() string { return filepath.Join(s.State, "audit", "audit.log") }

// Operators are the accounts of operators, as the API server knows them.
func (s Settings) Operators() []string { return []string{outsideUser, installedUser} }

// Server is the API server's address for clients in the room.
func (s Settings) Server() string { return fmt.Sprintf("https://%s:%d", s.Control.Address, apiPort) }

// DNSAddress is where CoreDNS answers.
func (s Settings) DNSAddress() string { return s.Control.Address }

// RegistryAddress is where the registry serves plain HTTP.
func (s Settings) RegistryAddress() string {
	return fmt.Sprintf("%s:%d", s.Control.Address, registryPort)
}

// ClusterRange holds the addresses of nodes and pods.
func (s Settings) ClusterRange() string { return clusterRange }

// ServiceRange holds the addresses of Services.
func (s Settings) ServiceRange() string { return serviceRange }

// Domain is the cluster's DNS domain.
func (s Settings) Domain() string { return domain }

// PauseImage is the image of the pods' sandboxes.
func (s Settings) PauseImage() string { return pauseImage }
