package room

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// The phases a room goes through; the last one in its status file stays there when it has ended.
const (
	phaseStarting = "starting"
	phaseReady    = "ready"
	phaseFailed   = "failed"
)

// status is what the room tells the outside, in status.json of its state directory.
type status struct {
	Phase string `json:"phase"`
	// Detail says what is waited for (starting) or what went wrong (failed).
	Detail string `json:"detail"`
	Server string `json:"server"`
	Node   string `json:"node"`
	// Since is when the phase began.
	Since time.Time `json:"since"`
}

// report replaces the status file in one step, so that no reader gets half of it.
func (s Settings) report(phase, detail string) error {
	content, err := json.Marshal(status{
		Phase:  phase,
		Detail: detail,
		Server: s.Server(),
		Node:   s.Node.Name,
		Since:  time.Now().UTC().Truncate(time.Second),
	})
	if err != nil {
		return err
	}
	path := filepath.Join(s.State, "status.json")
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
