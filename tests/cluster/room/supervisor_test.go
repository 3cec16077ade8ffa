package room

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// One supervisor for both cases: it reaps every child of its process, as PID 1 must.
func TestEndsAreToldWithTheLog(t *testing.T) {
	s := newSupervisor()
	log := filepath.Join(t.TempDir(), "logs", "run.log")
	if err := s.run(log, []string{"true"}); err != nil {
		t.Error(err)
	}
	err := s.run(log, []string{"sh", "-c", "echo no such rule; kill -TERM $$"})
	if err == nil || !strings.Contains(err.Error(), "was killed by SIGTERM: no such rule") {
		t.Errorf("reported: %v", err)
	}

	log = filepath.Join(t.TempDir(), "logs", "daemon.log")
	if err := s.daemon(daemon{name: "poet", command: []string{"sh", "-c", "echo roses are red; exit 3"}}, log); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.ended:
		if !strings.Contains(err.Error(), "poet ended with exit code 3") || !strings.HasSuffix(err.Error(), "roses are red") {
			t.Errorf("reported: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was reported")
	}
}
