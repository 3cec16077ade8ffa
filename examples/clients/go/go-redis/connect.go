package main

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// connect returns a client that serves again moments after a failover. Share one client between all goroutines.
// The options and their defaults: https://pkg.go.dev/github.com/redis/go-redis/v9#Options
func connect(address, password string) *redis.Client {
	return redis.NewClient(&redis.Options{
		// The Service, as in cache.shop.svc:6379. It leads to the master, whichever node that is.
		Addr:     address,
		Password: password,
		// A master that hangs still accepts connections, and answers nothing. The defaults wait for it for 5 s and 3 s.
		// After a timeout the client closes the connection, so it needs neither keepalive nor TCP_USER_TIMEOUT.
		DialTimeout:  time.Second,
		ReadTimeout:  time.Second,
		WriteTimeout: time.Second,
		// While no master serves, the Service refuses connections at once. The default of 3 retries is over too early;
		// 10 retries, up to half a second apart, last for about 4 s. A retry may execute a command twice: its answer may
		// have been lost. Set MaxRetries to -1 where that does harm.
		MaxRetries:      10,
		MinRetryBackoff: 10 * time.Millisecond,
		MaxRetryBackoff: 500 * time.Millisecond,
		// By default each retry dials 5 times.
		DialerRetries: 1,
		// The context of a call limits the call as a whole, retries included.
		ContextTimeoutEnabled: true,
		// Only Redis Enterprise sends these.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
