package room

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// replaced maps the host's directories that the daemons write to, by paths that cannot be configured, to what takes
// their place: a directory below the state directory, or memory where the name is empty.
var replaced = []struct{ target, data string }{
	{"/var", "var"},
	{"/tmp", "tmp"},
	{"/run", ""},
}

// prepareMounts gives the room directories of its own, so that nothing is written outside the state directory.
// All mounts go with the room's mount namespace.
func prepareMounts(s Settings) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make the mounts private: %w", err)
	}
	if err := hideSecondCgroups(); err != nil {
		return err
	}
	kept, err := openKept(s.Keep)
	if err != nil {
		return err
	}
	defer kept.close()
	for _, directory := range replaced {
		if err := replaceDirectory(s, directory.target, directory.data); err != nil {
			return err
		}
	}
	if err := kept.restore(); err != nil {
		return err
	}
	for _, directory := range []string{"/run/lock", "/var/lib", "/var/log", "/var/tmp"} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", "/var/run"); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := bindFile(s.Config("hosts"), "/etc/hosts"); err != nil {
		return err
	}
	return bindFile(s.Config("resolv.conf"), "/etc/resolv.conf")
}

// hideSecondCgroups takes version 2 of control groups out of sight where the host has it beside version 1: crun refuses to
// choose between them.
func hideSecondCgroups() error {
	err := unix.Unmount("/sys/fs/cgroup/unified", unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot hide /sys/fs/cgroup/unified: %w", err)
	}
	return nil
}

func replaceDirectory(s Settings, target, data string) error {
	if data == "" {
		return mountError(target, unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"))
	}
	source := s.Data(data)
	if err := os.MkdirAll(source, 0o755); err != nil {
		return err
	}
	if target == "/tmp" {
		if err := os.Chmod(source, 0o777|os.ModeSticky); err != nil {
			return err
		}
	}
	return mountError(target, unix.Mount(source, target, "", unix.MS_BIND, ""))
}

// keptDirectories are held open while the directories above them are replaced.
type keptDirectories map[string]*os.File

func openKept(paths []string) (keptDirectories, error) {
	kept := keptDirectories{}
	for _, path := range paths {
		if !isReplaced(path) || kept[path] != nil {
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			kept.close()
			return nil, err
		}
		kept[path] = file
	}
	return kept, nil
}

// restore mounts each kept directory again where it was.
func (kept keptDirectories) restore() error {
	for path, file := range kept {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		source := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
		if err := mountError(path, unix.Mount(source, path, "", unix.MS_BIND|unix.MS_REC, "")); err != nil {
			return err
		}
	}
	return nil
}

func (kept keptDirectories) close() {
	for _, file := range kept {
		_ = file.Close()
	}
}

func isReplaced(path string) bool {
	for _, directory := range replaced {
		if path == directory.target || strings.HasPrefix(path, directory.target+"/") {
			return true
		}
	}
	return false
}

// bindFile puts source in target's place. Where target is a link into a directory the room has replaced (as
// /etc/resolv.conf often is), the file it points to is made first.
func bindFile(source, target string) error {
	for range 8 {
		link, err := os.Readlink(target)
		if err != nil {
			break
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(target), link)
		}
		target = link
	}
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		if !isReplaced(target) {
			// Making it would change the host; a missing file does no harm.
			return nil
		}
		if err := writeFile(target, nil, 0o644); err != nil {
			return err
		}
	}
	return mountError(target, unix.Mount(source, target, "", unix.MS_BIND, ""))
}

func mountError(target string, err error) error {
	if err != nil {
		return fmt.Errorf("cannot mount over %s: %w", target, err)
	}
	return nil
}
