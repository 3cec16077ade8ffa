package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// at gives the operation its times; an end of 0 is unknown.
func at(call, end int64, it operation) operation {
	it.Key, it.Call = "key", call
	if end != 0 {
		it.Return = &end
	}
	return it
}

func verdict(t *testing.T, all ...operation) report {
	t.Helper()
	found, err := judge(map[string][]operation{"key": all}, time.Minute, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Histories of etcd, and of calls of Redis that a replica confirmed.
var histories = []struct {
	name    string
	verdict string
	calls   []operation
}{
	{"a read after a write sees it", kept, []operation{
		at(1, 2, operation{Do: put, Value: 1, Revision: 5}), at(3, 4, operation{Do: get, Seen: 1, Revision: 5}),
	}},
	{"a read beside a write sees what was before or after it", kept, []operation{
		at(1, 2, operation{Do: put, Value: 1}), at(3, 9, operation{Do: put, Value: 2}),
		at(4, 5, operation{Do: get, Seen: 1}), at(6, 7, operation{Do: get, Seen: 2}),
	}},
	{"a stale read", broken, []operation{
		at(1, 2, operation{Do: put, Value: 1}), at(3, 4, operation{Do: put, Value: 2}),
		at(5, 6, operation{Do: get, Seen: 1}),
	}},
	{"a read goes back beside a write that goes on", broken, []operation{
		at(1, 2, operation{Do: put, Value: 1}), at(3, 9, operation{Do: put, Value: 2}),
		at(4, 5, operation{Do: get, Seen: 2}), at(6, 7, operation{Do: get, Seen: 1}),
	}},
	{"a confirmed write is lost with a master", broken, []operation{
		at(1, 2, operation{Do: put, Value: 1}), at(3, 4, operation{Do: put, Value: 2}),
		at(9, 10, operation{Do: swap, Value: 3, Seen: 1}),
	}},
	{"a write of unknown outcome never happens", kept, []operation{
		at(1, 2, operation{Do: put, Value: 1}), at(3, 0, operation{Do: put, Value: 2}),
		at(9, 10, operation{Do: get, Seen: 1}),
	}},
	{"a write of unknown outcome happens much later", kept, []operation{
		at(1, 2, operation{Do: put, Value: 1}), at(3, 0, operation{Do: put, Value: 2}),
		at(9, 10, operation{Do: get, Seen: 1}), at(19, 20, operation{Do: get, Seen: 2}),
	}},
	{"a write of unknown outcome happens and is undone", broken, []operation{
		at(1, 2, operation{Do: put, Value: 1}), at(3, 0, operation{Do: put, Value: 2}),
		at(9, 10, operation{Do: get, Seen: 2}), at(19, 20, operation{Do: get, Seen: 1}),
	}},
	{"a value is read before it is written", broken, []operation{
		at(1, 2, operation{Do: get, Seen: 1}), at(3, 0, operation{Do: put, Value: 1}),
	}},
	{"a value is read that no client wrote", broken, []operation{at(1, 2, operation{Do: get, Seen: 7})}},
	{"two compare and swap in turn", kept, []operation{
		at(1, 2, operation{Do: put, Value: 1, Revision: 5}),
		at(3, 6, operation{Do: cas, Expected: 1, Value: 2, Done: true, Revision: 6}),
		at(4, 7, operation{Do: cas, Expected: 1, Value: 3, Seen: 2, Revision: 6}),
	}},
	{"two compare and swap, and both succeed", broken, []operation{
		at(1, 2, operation{Do: put, Value: 1}),
		at(3, 6, operation{Do: cas, Expected: 1, Value: 2, Done: true}),
		at(4, 7, operation{Do: cas, Expected: 1, Value: 3, Done: true}),
	}},
	{"a compare and swap fails although what it expects is there", broken, []operation{
		at(1, 2, operation{Do: put, Value: 1}), at(3, 6, operation{Do: cas, Expected: 1, Value: 2, Seen: 1}),
	}},
	{"a compare and swap of unknown outcome has happened, and another cannot have", broken, []operation{
		at(1, 2, operation{Do: put, Value: 1}), at(3, 0, operation{Do: cas, Expected: 1, Value: 2}),
		at(4, 7, operation{Do: cas, Expected: 1, Value: 3, Done: true}), at(8, 9, operation{Do: get, Seen: 2}),
	}},
	{"a revision is given twice", broken, []operation{
		at(1, 2, operation{Do: put, Value: 1, Revision: 5}), at(3, 4, operation{Do: put, Value: 2, Revision: 5}),
	}},
	{"a value is read with another revision than it was written with", broken, []operation{
		at(1, 2, operation{Do: put, Value: 1, Revision: 5}), at(3, 4, operation{Do: get, Seen: 1, Revision: 6}),
	}},
	{"additions of which one is unknown and counts", kept, []operation{
		at(1, 2, operation{Do: add, Seen: 1}), at(3, 0, operation{Do: add}), at(5, 6, operation{Do: add, Seen: 3}),
	}},
	{"an addition that was confirmed is lost", broken, []operation{
		at(1, 2, operation{Do: add, Seen: 1}), at(3, 4, operation{Do: add, Seen: 2}),
		at(5, 6, operation{Do: add, Seen: 2}),
	}},
	{"an addition counts twice", broken, []operation{
		at(1, 2, operation{Do: add, Seen: 1}), at(3, 4, operation{Do: get, Seen: 2}),
	}},
	{"nothing is known", notJudged, []operation{at(1, 0, operation{Do: put, Value: 1})}},
}

func TestHistoriesAreKeptOrBroken(t *testing.T) {
	for _, it := range histories {
		t.Run(it.name, func(t *testing.T) {
			if found := verdict(t, it.calls...); found.Verdict != it.verdict {
				t.Errorf("%s, where %s is right: %+v", found.Verdict, it.verdict, found)
			}
		})
	}
}

func TestABrokenKeyIsNamedWithTheCallThatFitsNowhere(t *testing.T) {
	found := verdict(t, at(1, 2, operation{Do: put, Value: 1}), at(3, 4, operation{Do: put, Value: 2}),
		at(5, 6, operation{Do: get, Seen: 1, Client: 4}))
	want := "key: 2 of 3 calls can be put in an order; then 2 at revision 0 is there, and this fits nowhere: get → 1 by client 4"
	if len(found.Broken) != 1 || !strings.HasPrefix(found.Broken[0], want) {
		t.Errorf("%q, where %q is right", found.Broken, want)
	}
}

// Additions beside each other of unknown outcome, and then a sum that no choice of them explains: each has to be tried.
func TestAKeyThatTakesTooLongIsNotJudged(t *testing.T) {
	var all []operation
	for client := range 40 {
		all = append(all, at(1, 0, operation{Do: add, Client: client}))
	}
	for sum := range int64(20) {
		all = append(all, at(10+2*sum, 11+2*sum, operation{Do: get, Seen: uint64(sum + 1)}))
	}
	all = append(all, at(90, 91, operation{Do: get, Seen: 99}))
	found, err := judge(map[string][]operation{"key": all}, 50*time.Millisecond, "")
	if err != nil || found.Verdict != notJudged || len(found.NotJudged) != 1 {
		t.Errorf("%+v %v", found, err)
	}
}

// As many calls as a key gets, a tenth of them unknown.
func TestAKeyOfTheWorkloadIsJudgedAtOnce(t *testing.T) {
	var all []operation
	var last uint64
	for number := range uint64(600) {
		begun := int64(number) * 10
		if number%10 == 3 {
			all = append(all, at(begun, 0, operation{Do: put, Value: number + 1}))
			continue
		}
		all = append(all, at(begun, begun+25, operation{Do: put, Value: number + 1}))
		if number%5 == 4 {
			last = number + 1
			all = append(all, at(begun+26, begun+30, operation{Do: get, Seen: last}))
		}
	}
	begun := time.Now()
	if found := verdict(t, all...); found.Verdict != kept {
		t.Errorf("%+v", found)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestAHistoryIsReadAndWhatItCannotBeIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"operations":[{"key":"a","client":1,"do":"put","call":1,"return":2,"value":3}]}`: kept,
		`{"operations":[{"key":"a","client":1,"do":"get","call":1,"return":2,"seen":3}]}`:  broken,
		`{"operations":[]}`: notJudged,
		`{"operations":[{"key":"a","client":1,"do":"steal","call":1}]}`:          "nothing that a call does",
		`{"operations":[{"key":"a","client":1,"do":"get","call":2,"return":1}]}`: "before it was made",
		`{"operations":[{"key":"a","sense":1}]}`:                                 "unknown field",
	} {
		var out bytes.Buffer
		err := run(strings.NewReader(text), &out, time.Minute, t.TempDir())
		var found report
		if err == nil {
			err = json.Unmarshal(out.Bytes(), &found)
		}
		if said := fmt.Sprint(found.Verdict, err); !strings.Contains(said, want) {
			t.Errorf("%s: %s, where %s is right", text, said, want)
		}
	}
}
