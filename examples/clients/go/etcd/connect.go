package main

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// connect returns a client that serves again moments after a member is gone. Share one client between all goroutines.
// The options: https://pkg.go.dev/go.etcd.io/etcd/client/v3#Config
func connect(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		// The members, as in http://db-0.db-peers.shop.svc:2379. The client sends each call to the next one, and leaves out
		// those that it cannot connect to. By the Service it has a single connection, to a single member.
		Endpoints: endpoints,
		// To log in, and nothing else: connections are made in the background.
		DialTimeout: 2 * time.Second,
		// Closes a connection whose member answers no ping: it may be cut off, or hang. gRPC pings no more often than every
		// 10 s (https://pkg.go.dev/google.golang.org/grpc/keepalive#ClientParameters). DialKeepAliveTimeout is also the
		// connection's TCP_USER_TIMEOUT, which closes one whose packets are not acknowledged.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		// etcd takes pings without a call for an attack, and closes the connection.
		PermitWithoutStream: false,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			// By default gRPC waits for up to 120 s until it connects again to a member that was away.
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
			},
			// By default it waits for 20 s for a member that accepts no connection, before it tries the next address.
			MinConnectTimeout: time.Second,
		})},
		// The client's warnings about retries; errors are returned all the same.
		Logger: zap.NewNop(),
	})
}
