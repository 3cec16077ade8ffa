// Package report tells how long a client could not write: a line each second and for each error.
package report

import (
	"fmt"
	"time"
)

// Report is what one client saw.
type Report struct {
	begun, told, last time.Time
	ok, failed, lost  int64
	acknowledged      int64
	gap, longest      time.Duration // between two acknowledged writes: since the last line, and ever
}

// New begins a report.
func New() *Report {
	now := time.Now()
	return &Report{begun: now, told: now, last: now}
}

// Acknowledge notes that the server acknowledged the write of that number.
func (r *Report) Acknowledge(number int64) {
	now := time.Now()
	r.gap = max(r.gap, now.Sub(r.last))
	r.longest = max(r.longest, r.gap)
	r.ok, r.acknowledged, r.last = r.ok+1, number, now
	if now.Sub(r.told) >= time.Second {
		r.tell("")
	}
}

// Stored notes which number the server has: if it is lower than an acknowledged one, the writes between are lost.
func (r *Report) Stored(number int64) {
	if number < r.acknowledged {
		r.lost += r.acknowledged - number
		r.acknowledged = number
	}
}

// Fail notes that a call failed.
func (r *Report) Fail(err error) {
	r.failed++
	r.tell(fmt.Sprintf(" error=%q", err))
}

// End prints the sums.
func (r *Report) End() {
	fmt.Printf("end ok=%d failed=%d lost=%d longest=%.2f\n", r.ok, r.failed, r.lost, r.longest.Seconds())
}

func (r *Report) tell(more string) {
	r.told = time.Now()
	fmt.Printf("time=%.1f ok=%d acknowledged=%d lost=%d gap=%.2f longest=%.2f%s\n", r.told.Sub(r.begun).Seconds(),
		r.ok, r.acknowledged, r.lost, r.gap.Seconds(), r.longest.Seconds(), more)
	r.gap = 0
}
