package room

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// volumes is where the controller manager makes a directory for every claim. The path cannot be configured.
const volumes = "/tmp/hostpath_pv"

// keepVolumesInMemory keeps tests off the disk: a busy disk with many databases holds all of them up for seconds. A
// killed process loses no data by that; the data are lost only when the room ends.
func keepVolumesInMemory() error {
	if err := os.MkdirAll(volumes, 0o755); err != nil {
		return err
	}
	return mountError(volumes, unix.Mount("tmpfs", volumes, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"))
}

// openVolumes lets every user write to new volumes, as a real provisioner lets the pod's group. The controller manager
// makes them writable for root only, and the kubelet does not change the owner of directories of the node.
func openVolumes(logger *log.Logger) error {
	if err := os.MkdirAll(volumes, 0o755); err != nil {
		return err
	}
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", volumes, err)
	}
	if _, err := unix.InotifyAddWatch(events, volumes, unix.IN_CREATE|unix.IN_ONLYDIR); err != nil {
		return fmt.Errorf("cannot watch %s: %w", volumes, err)
	}
	go func() {
		buffer := make([]byte, 64*1024)
		for {
			n, err := unix.Read(events, buffer)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				logger.Printf("cannot watch %s any more: %v", volumes, err)
				return
			}
			for _, name := range created(buffer[:n]) {
				path := filepath.Join(volumes, name)
				if err := os.Chmod(path, 0o777); err != nil && !errors.Is(err, os.ErrNotExist) {
					logger.Printf("cannot open %s for all users: %v", path, err)
				}
			}
		}
	}()
	return nil
}

// created returns the names in inotify's events.
func created(events []byte) []string {
	var names []string
	for len(events) >= unix.SizeofInotifyEvent {
		length := int(binary.NativeEndian.Uint32(events[12:16]))
		end := min(unix.SizeofInotifyEvent+length, len(events))
		if name := bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00"); len(name) > 0 {
			names = append(names, string(name))
		}
		events = events[end:]
	}
	return names
}
