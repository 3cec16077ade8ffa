package room

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// daemonsGroup holds the room's own processes, beside the kubelet's "kubepods".
const daemonsGroup = "daemons"

// joinCgroups makes the cluster's group in every hierarchy and moves this process (so all it will start) there.
// The groups outlive the room; who ends it removes them.
func joinCgroups(s Settings) error {
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return err
	}
	defer mounts.Close()
	hierarchies := cgroupMounts(mounts)
	if len(hierarchies) == 0 {
		return errors.New("no cgroup file system is mounted: mount cgroup2 on /sys/fs/cgroup")
	}
	for _, hierarchy := range hierarchies {
		if err := joinHierarchy(hierarchy, s.Cgroup); err != nil {
			return fmt.Errorf("cannot make the group %s in %s: %w", s.Cgroup, hierarchy, err)
		}
	}
	return nil
}

// cgroupMounts lists where cgroup hierarchies, of version 1 or 2, are mounted.
func cgroupMounts(mounts io.Reader) []string {
	var found []string
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			found = append(found, fields[1])
		}
	}
	return found
}

func joinHierarchy(hierarchy, group string) error {
	parent := hierarchy
	for _, name := range append(strings.Split(group, "/"), daemonsGroup) {
		if err := passControllers(parent); err != nil {
			return err
		}
		child := filepath.Join(parent, name)
		if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := inheritCPUs(parent, child); err != nil {
			return err
		}
		parent = child
	}
	return os.WriteFile(filepath.Join(parent, "cgroup.procs"), []byte("0"), 0)
}

// wantedControllers are those the kubelet insists on in its own group.
var wantedControllers = []string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}

// passControllers lets the groups below this one use its controllers: version 2 wants that said.
func passControllers(group string) error {
	content, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var pass []string
	for _, controller := range strings.Fields(string(content)) {
		if slices.Contains(wantedControllers, controller) {
			pass = append(pass, "+"+controller)
		}
	}
	if len(pass) == 0 {
		return nil
	}
	return os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte(strings.Join(pass, " ")), 0)
}

// inheritCPUs fills what a new cpuset of version 1 leaves empty; no process may enter before.
func inheritCPUs(parent, child string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		inherited, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			// Not a cpuset; or the root of version 2, where an empty one means "as the parent".
			return nil
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(inherited)) == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(child, file), inherited, 0); err != nil {
			return err
		}
	}
	return nil
}
