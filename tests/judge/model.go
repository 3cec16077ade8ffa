package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// state is what is under a key.
type state struct {
	value    uint64
	revision int64
}

// model is a value that is read, written, swapped, compared and added to, one call after the other.
//
// etcd promises all of that for every call. Redis promises it for calls that a replica confirmed (docs/redis.md, "What
// can be lost"): clients record other calls with an unknown outcome, or not at all if they only read.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(now, input, _ any) (bool, any) {
		return input.(operation).step(now.(state))
	},
	DescribeOperation: func(input, _ any) string { return input.(operation).String() },
	DescribeState:     func(now any) string { return now.(state).String() },
}

// step returns whether the call can be the next one, and the state after it.
func (it operation) step(now state) (bool, state) {
	switch it.Do {
	case get:
		return now.is(it.Seen, it.Revision), now
	case put:
		return it.writes(now)
	case swap:
		ok, next := it.writes(now)
		return ok && now.value == it.Seen, next
	case cas:
		if !it.Done {
			return now.is(it.Seen, it.Revision) && now.value != it.Expected, now
		}
		ok, next := it.writes(now)
		return ok && now.value == it.Expected, next
	default: // add
		next := state{value: now.value + 1}
		return !it.known() || next.value == it.Seen, next
	}
}

func (now state) is(value uint64, revision int64) bool {
	return now.value == value && (revision == 0 || now.revision == 0 || now.revision == revision)
}

// writes puts the value there; a revision must be higher than the one before.
func (it operation) writes(now state) (bool, state) {
	return it.Revision == 0 || it.Revision > now.revision, state{it.Value, it.Revision}
}

func (now state) String() string { return fmt.Sprintf("%d at revision %d", now.value, now.revision) }

func (it operation) String() string {
	what := it.Do
	switch it.Do {
	case get:
		what = fmt.Sprintf("get → %d", it.Seen)
	case put:
		what = fmt.Sprintf("put %d", it.Value)
	case swap:
		what = fmt.Sprintf("swap %d → %d", it.Value, it.Seen)
	case cas:
		what = fmt.Sprintf("cas %d for %d → done", it.Value, it.Expected)
		if !it.Done {
			what = fmt.Sprintf("cas %d for %d → found %d", it.Value, it.Expected, it.Seen)
		}
	case add:
		what = fmt.Sprintf("add → %d", it.Seen)
		if !it.known() {
			what = "add → unknown"
		}
	}
	if it.Revision != 0 {
		what += fmt.Sprintf(" at revision %d", it.Revision)
	}
	return fmt.Sprintf("%s by client %d", what, it.Client)
}
