package room

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	for _, name := range []string{group, daemonsGroup} {
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

// inheritCPUs fills what a new cpuset of version 1 leaves empty; no process may enter before.
func inheritCPUs(parent, child string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(child, file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(own)) != "" {
			continue
		}
		inherited, err := os.ReadFile(filepath.Join(parent, file))
		if err != nil {
			// The root of version 2 has none, and an empty one below it means "as the parent".
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
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
