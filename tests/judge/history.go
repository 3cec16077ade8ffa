package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// The effects of a call on the value under its key. Every value that is written is written once in a history; 0 is no value.
const (
	get  = "get"  // reads Seen
	put  = "put"  // writes Value
	swap = "swap" // writes Value, and reads in the same moment what was there before: Seen
	cas  = "cas"  // writes Value if Expected is there; otherwise reads Seen
	add  = "add"  // adds one, and reads the sum: Seen
)

// operation is one call of a client.
type operation struct {
	Key    string `json:"key"`
	Client int    `json:"client"`
	Do     string `json:"do"`
	// When the call was made, in nanoseconds since any moment.
	Call int64 `json:"call"`
	// When it returned. Absent if the client does not know whether the call took effect, or still will.
	Return *int64 `json:"return,omitempty"`

	Value    uint64 `json:"value,omitempty"`
	Expected uint64 `json:"expected,omitempty"`
	Seen     uint64 `json:"seen,omitempty"`
	// True if a cas found the value that it expected.
	Done bool `json:"done,omitempty"`
	// The revision of the key after the call, if the store has revisions: each write of the key gets a higher one.
	Revision int64 `json:"revision,omitempty"`
}

func (it operation) known() bool { return it.Return != nil }

func (it operation) end() int64 {
	if it.known() {
		return *it.Return
	}
	return math.MaxInt64
}

// observed is the value that the call found, and whether it found one at all.
func (it operation) observed() (uint64, bool) {
	switch {
	case !it.known():
		return 0, false
	case it.Do == cas && it.Done:
		return it.Expected, true
	case it.Do == get || it.Do == swap || it.Do == cas:
		return it.Seen, true
	}
	return 0, false
}

func (it operation) valid() error {
	switch it.Do {
	case get, put, swap, cas, add:
	default:
		return fmt.Errorf("%q is nothing that a call does", it.Do)
	}
	if it.known() && *it.Return < it.Call {
		return fmt.Errorf("a call of %s returned before it was made", it.Key)
	}
	return nil
}

// read gives the operations of a history by key.
func read(from io.Reader) (map[string][]operation, error) {
	var history struct {
		Operations []operation `json:"operations"`
	}
	decoder := json.NewDecoder(from)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&history); err != nil {
		return nil, fmt.Errorf("cannot read the history: %w", err)
	}
	keys := map[string][]operation{}
	for number, it := range history.Operations {
		if err := it.valid(); err != nil {
			return nil, fmt.Errorf("operation %d: %w", number, err)
		}
		keys[it.Key] = append(keys[it.Key], it)
	}
	return keys, nil
}

// narrowed resolves unknown outcomes in the operations of one key where that makes no difference, so that the search
// ends.
//
// Every value is written once. So a write of unknown outcome whose value was seen has happened, and it happened before
// the first call that saw it returned. A write whose value was never seen can be left out: any order of the rest stays
// valid with this write at its end, and any order with the write stays valid without it. Additions cannot be
// distinguished from each other: they stay as they are.
func narrowed(all []operation) []operation {
	first := map[uint64]operation{}
	for _, it := range all {
		value, sees := it.observed()
		if before, ok := first[value]; sees && (!ok || it.end() < before.end()) {
			first[value] = it
		}
	}
	var kept []operation
	for _, it := range all {
		if !it.known() && it.Do != add {
			seen, ok := first[it.Value]
			if it.Do == get || !ok || seen.end() < it.Call {
				// The value was seen before this call: without the call, the model finds no write that explains it.
				continue
			}
			it.Return, it.Done = seen.Return, true
			it.Revision = revisionOf(it.Value, all)
			// Only the swap itself would know what it replaced.
			if it.Do == swap {
				it.Do = put
			}
		}
		kept = append(kept, it)
	}
	return kept
}

// revisionOf is the revision with which a read saw a value; 0 if no read did.
func revisionOf(value uint64, all []operation) int64 {
	for _, it := range all {
		reads := it.Do == get || it.Do == cas && !it.Done
		if it.known() && reads && it.Seen == value {
			return it.Revision
		}
	}
	return 0
}
