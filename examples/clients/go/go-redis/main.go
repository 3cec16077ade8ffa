// Counts in Redis, and tells how long it could not. See docs/clients.md.
//
//	REDIS_ADDRESS=cache.shop.svc:6379 REDIS_PASSWORD=… go run ./go-redis
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"causeway.example.com/examples/clients/report"
)

const key = "counter:go-redis"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := connect(os.Getenv("REDIS_ADDRESS"), os.Getenv("REDIS_PASSWORD"))
	defer client.Close()

	report := report.New()
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		// Retries included, no call takes longer.
		call, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		number, err := client.Incr(call, key).Result()
		if err == nil {
			report.Stored(number - 1)
			report.Acknowledge(number)
			number, err = client.Get(call, key).Int64()
		}
		cancel()
		if err != nil {
			report.Fail(err)
		} else {
			report.Stored(number)
		}
	}
	report.End()
}
