import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SocketOptions;
import io.lettuce.core.SocketOptions.KeepAliveOptions;
import io.lettuce.core.SocketOptions.TcpUserTimeoutOptions;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.Delay;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

final class Connect {
    // A client that serves again moments after a failover. Share one connection between all threads. The options:
    // https://redis.io/docs/latest/develop/clients/lettuce/produsage
    // https://github.com/lettuce-io/lettuce-core/wiki/Client-options
    static RedisClient connect(String host, int port, String password) {
        RedisURI uri = RedisURI.builder()
            // The Service, as in cache.shop.svc. It leads to the master, whichever node that is.
            .withHost(host).withPort(port).withPassword(password.toCharArray())
            // A call without an answer has failed. The default is a minute.
            .withTimeout(Duration.ofSeconds(1))
            .build();
        ClientResources resources = ClientResources.builder()
            // While no master serves, the Service refuses connections. The default waits up to 30 s for the next attempt.
            .reconnectDelay(Delay.fullJitter(Duration.ofMillis(50), Duration.ofMillis(500), 50, TimeUnit.MILLISECONDS))
            .build();
        SocketOptions socket = SocketOptions.builder()
            .connectTimeout(Duration.ofSeconds(1))
            // Lettuce keeps a connection on which calls time out. The kernel must close one whose peer is gone without a word,
            // as with its machine: TCP_USER_TIMEOUT while a call waits, and keepalive while none does. The first needs Netty's
            // native transport (netty-transport-native-epoll). Without it that may take 15 minutes.
            .tcpUserTimeout(TcpUserTimeoutOptions.builder().enable().tcpUserTimeout(Duration.ofSeconds(5)).build())
            .keepAlive(KeepAliveOptions.builder().enable()
                .idle(Duration.ofSeconds(2)).interval(Duration.ofSeconds(1)).count(3).build())
            .build();
        RedisClient client = RedisClient.create(resources, uri);
        client.setOptions(ClientOptions.builder()
            .socketOptions(socket)
            // The timeout above is for asynchronous calls too. A call that finds no connection waits for one that long, and a
            // call whose connection broke is sent again: it may be executed twice.
            .timeoutOptions(TimeoutOptions.enabled())
            .build());
        return client;
    }
}
