package room

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadsTheNamesOfWhatWasCreated(t *testing.T) {
	directory := t.TempDir()
	events, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(events)
	if _, err := unix.InotifyAddWatch(events, directory, unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	wanted := []string{"a", "ce3fbf42-72ed-4cd9-8fcb-5c36b05aba70"}
	for _, name := range wanted {
		if err := os.Mkdir(filepath.Join(directory, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	buffer := make([]byte, 4096)
	n, err := unix.Read(events, buffer)
	if err != nil {
		t.Fatal(err)
	}
	if names := created(buffer[:n]); !slices.Equal(names, wanted) {
		t.Errorf("%q", names)
	}
	if names := created(buffer[:3]); names != nil {
		t.Errorf("%q out of a fragment", names)
	}
}
