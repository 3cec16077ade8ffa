package room

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// supervisor starts the room's processes and, being PID 1, reaps everything that ends in it. It restarts nothing:
// a cluster that has lost a part must be seen to be broken.
type supervisor struct {
	// One lock for "start and remember" and "reap and look up", so that no end is missed.
	lock  sync.Mutex
	known map[int]func(unix.WaitStatus)
	// ended receives the first daemon's end.
	ended chan error
}

func newSupervisor() *supervisor {
	s := &supervisor{known: map[int]func(unix.WaitStatus){}, ended: make(chan error, 1)}
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	go func() {
		for range children {
			s.reap()
		}
	}()
	return s
}

func (s *supervisor) reap() {
	s.lock.Lock()
	defer s.lock.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if tell, ok := s.known[pid]; ok {
			delete(s.known, pid)
			tell(status)
		}
	}
}

// daemon starts a process that must not end before the room does.
func (s *supervisor) daemon(started daemon, log string) error {
	return s.start(log, started.command, started.environment(), func(status unix.WaitStatus) {
		select {
		case s.ended <- fmt.Errorf("%s %s; the end of its log:\n%s", started.name, describe(status), lastLines(log, 20)):
		default: // Only the first end is the cause; others follow from it.
		}
	})
}

// run starts a process and waits for its success.
func (s *supervisor) run(log string, command []string) error {
	done := make(chan unix.WaitStatus, 1)
	if err := s.start(log, command, environment(), func(status unix.WaitStatus) { done <- status }); err != nil {
		return err
	}
	if status := <-done; !status.Exited() || status.ExitStatus() != 0 {
		return fmt.Errorf("%s %s: %s", strings.Join(command, " "), describe(status), lastLines(log, 5))
	}
	return nil
}

func (s *supervisor) start(log string, command, environment []string, ended func(unix.WaitStatus)) error {
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return err
	}
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	input, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer input.Close()
	s.lock.Lock()
	defer s.lock.Unlock()
	process, err := os.StartProcess(program, command, &os.ProcAttr{
		Dir:   "/",
		Env:   environment,
		Files: []*os.File{input, output, output},
		Sys:   &unix.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", program, err)
	}
	s.known[process.Pid] = ended
	return process.Release()
}

// environment is all that daemons inherit: proxies and credentials of the user who started the room stay outside.
func environment() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/var/tmp", "LANG=C.UTF-8",
		// Trades memory for time: the heap grows to four times the live heap before a collection, as long as a daemon stays
		// below the limit. See https://go.dev/doc/gc-guide#GOGC.
		"GOGC=300", "GOMEMLIMIT=1GiB",
	}
}

// environment is that of all daemons, limited to one processor for those that have little to do: with more, Go wakes
// further threads for each moment of work, and these find nothing to do.
func (d daemon) environment() []string {
	if d.parallel {
		return environment()
	}
	return append(environment(), "GOMAXPROCS=1")
}

func describe(status unix.WaitStatus) string {
	if status.Signaled() {
		return "was killed by " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("ended with exit code %d", status.ExitStatus())
}

func lastLines(path string, count int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
