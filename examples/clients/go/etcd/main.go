// Counts in etcd, and tells how long it could not. See docs/clients.md.
//
//	ETCD_ENDPOINTS=http://db-0.db-peers.shop.svc:2379,http://db-1.db-peers.shop.svc:2379,… go run ./etcd
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"causeway.example.com/examples/clients/report"
)

// A call without an answer reaches another member when it is made again, so it gives up soon.
const deadline = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := connect(strings.Split(os.Getenv("ETCD_ENDPOINTS"), ","))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer client.Close()

	key := "counter/" + os.Getenv("ETCD_COUNTER")
	report := report.New()
	var now stored
	for number := int64(1); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		after, err := write(client, key, number, now.revision)
		if err != nil {
			// It may or may not have been written.
			report.Fail(err)
			continue
		}
		now = after
		report.Stored(now.number)
		if now.number == number {
			report.Acknowledge(number)
			number++
		}
	}
	report.End()
}

// stored is what etcd has.
type stored struct{ number, revision int64 }

// write writes a number if the key is still of that revision, and returns what is there then. A write without that condition may
// undo later ones: a member that hung reads what waited in its sockets when it wakes up, and executes calls that were given up.
func write(client *clientv3.Client, key string, number, revision int64) (stored, error) {
	call, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	answer, err := client.Txn(call).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpPut(key, strconv.FormatInt(number, 10)), clientv3.OpGet(key)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return stored{}, err
	}
	pairs := answer.Responses[len(answer.Responses)-1].GetResponseRange().Kvs
	if len(pairs) == 0 {
		return stored{}, nil
	}
	value, err := strconv.ParseInt(string(pairs[0].Value), 10, 64)
	return stored{value, pairs[0].ModRevision}, err
}
