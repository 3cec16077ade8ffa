package room

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFindsHierarchiesOfBothVersions(t *testing.T) {
	mounts := "proc /proc proc rw 0 0\ntmpfs /sys/fs/cgroup tmpfs rw 0 0\n" +
		"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
	found := cgroupMounts(strings.NewReader(mounts))
	if !slices.Equal(found, []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"}) {
		t.Errorf("found %v", found)
	}
}

// A plain directory stands in for a hierarchy: the kernel's files are made by hand.
func fill(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestVersion1CPUSetsAreInherited(t *testing.T) {
	root := t.TempDir()
	fill(t, filepath.Join(root, "cpuset.cpus"), "0-1\n")
	fill(t, filepath.Join(root, "cpuset.mems"), "0\n")
	fill(t, filepath.Join(root, "group/daemons/cgroup.procs"), "")
	if err := joinHierarchy(root, "group"); err != nil {
		t.Fatal(err)
	}
	cpus, err := os.ReadFile(filepath.Join(root, "group/daemons/cpuset.cpus"))
	if err != nil || string(cpus) != "0-1\n" {
		t.Errorf("cpus %q, %v", cpus, err)
	}
}

func TestVersion2ControllersArePassedDown(t *testing.T) {
	root := t.TempDir()
	fill(t, filepath.Join(root, "cgroup.controllers"), "cpuset cpu io memory hugetlb pids rdma misc\n")
	fill(t, filepath.Join(root, "cgroup.subtree_control"), "")
	fill(t, filepath.Join(root, "group/daemons/cgroup.procs"), "")
	if err := joinHierarchy(root, "group"); err != nil {
		t.Fatal(err)
	}
	passed, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if err != nil || string(passed) != "+cpuset +cpu +io +memory +hugetlb +pids" {
		t.Errorf("passed %q, %v", passed, err)
	}
}
