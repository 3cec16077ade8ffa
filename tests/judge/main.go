// Command judge reads what clients did, and reports whether one order of all calls explains what they saw: an order in
// which no call comes after one that was made when it had returned already (linearizability). porcupine looks for it,
// key by key.
//
// A key for which it finds no answer in time was not judged, and is never called good.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdicts.
const (
	kept      = "kept"
	broken    = "broken"
	notJudged = "not judged"
)

// report is what is printed.
type report struct {
	Verdict    string `json:"verdict"`
	Keys       int    `json:"keys"`
	Operations int    `json:"operations"`
	// How many of the operations have an unknown outcome.
	Unknown int `json:"unknown"`
	// Broken keys, each with why.
	Broken []string `json:"broken"`
	// Keys for which the search did not end in time.
	NotJudged []string `json:"not_judged"`
}

func main() {
	limit := flag.Duration("limit", 20*time.Second, "the longest that one key may take")
	pages := flag.String("pages", "", "a folder for pages that show the calls of broken keys")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *limit, *pages); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func run(from io.Reader, to io.Writer, limit time.Duration, pages string) error {
	keys, err := read(from)
	if err != nil {
		return err
	}
	found, err := judge(keys, limit, pages)
	if err != nil {
		return err
	}
	return json.NewEncoder(to).Encode(found)
}

func judge(keys map[string][]operation, limit time.Duration, pages string) (report, error) {
	found := report{Keys: len(keys), Broken: []string{}, NotJudged: []string{}}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		all := keys[key]
		found.Operations += len(all)
		for _, it := range all {
			if !it.known() {
				found.Unknown++
			}
		}
		history := calls(narrowed(all))
		result, info := porcupine.CheckOperationsVerbose(model, history, limit)
		switch result {
		case porcupine.Ok:
		case porcupine.Illegal:
			found.Broken = append(found.Broken, key+": "+why(history, info))
			if pages != "" {
				path := filepath.Join(pages, filepath.Base(key)+".html")
				if err := porcupine.VisualizePath(model, info, path); err != nil {
					return found, fmt.Errorf("cannot write %s: %w", path, err)
				}
			}
		default:
			found.NotJudged = append(found.NotJudged, key)
		}
	}
	switch {
	case len(found.Broken) > 0:
		found.Verdict = broken
	case len(found.NotJudged) > 0 || found.Operations == found.Unknown:
		found.Verdict = notJudged
	default:
		found.Verdict = kept
	}
	return found, nil
}

func calls(all []operation) []porcupine.Operation {
	var history []porcupine.Operation
	for _, it := range all {
		history = append(history, porcupine.Operation{ClientId: it.Client, Input: it, Call: it.Call, Return: it.end()})
	}
	return history
}

// why describes how far the longest order goes, and which call fits nowhere after it.
func why(history []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	var now state
	done := map[operation]bool{}
	for _, it := range longest {
		_, now = it.Input.(operation).step(now)
		done[it.Input.(operation)] = true
	}
	var next *porcupine.Operation
	for at, it := range history {
		if !done[it.Input.(operation)] && (next == nil || it.Return < next.Return) {
			next = &history[at]
		}
	}
	if next == nil {
		return "no order explains it"
	}
	return fmt.Sprintf("%d of %d calls can be put in an order; then %v is there, and this fits nowhere: %v, %.3f to %.3f s",
		len(longest), len(history), now, next.Input, seconds(next.Call), seconds(next.Return))
}

func seconds(nanoseconds int64) float64 { return time.Duration(nanoseconds).Seconds() }
