import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import java.util.Locale;

// Counts in Redis, and tells how long it could not. See docs/clients.md.
//
// REDIS_ADDRESS=cache.shop.svc:6379 REDIS_PASSWORD=… java -cp … Client
final class Client {
    private static final String KEY = "counter:lettuce";
    private static volatile boolean stopping;

    public static void main(String[] arguments) throws InterruptedException {
        String[] address = System.getenv("REDIS_ADDRESS").split(":");
        String password = System.getenv().getOrDefault("REDIS_PASSWORD", "");
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                main.join();
            } catch (InterruptedException ignored) {
                // The JVM ends.
            }
        }));
        RedisClient client = Connect.connect(address[0], Integer.parseInt(address[1]), password);
        StatefulRedisConnection<String, String> connection = client.connect();
        RedisCommands<String, String> redis = connection.sync();
        Report report = new Report();
        while (!stopping) {
            try {
                long number = redis.incr(KEY);
                report.stored(number - 1);
                report.acknowledge(number);
                report.stored(Long.parseLong(redis.get(KEY)));
            } catch (RedisException error) {
                report.fail(error);
            }
            Thread.sleep(20);
        }
        report.end();
        // Not client.shutdown(): it takes two seconds, and the process ends.
    }

    // A line each second and for each error: how long no write was acknowledged.
    private static final class Report {
        private final long begun = System.nanoTime();
        private long told = begun, last = begun;
        private long ok, failed, lost, acknowledged;
        private double gap, longest; // between two acknowledged writes: since the last line, and ever

        void acknowledge(long number) {
            long now = System.nanoTime();
            gap = Math.max(gap, (now - last) / 1e9);
            longest = Math.max(longest, gap);
            ok++;
            acknowledged = number;
            last = now;
            if (now - told >= 1_000_000_000L) {
                tell("");
            }
        }

        // If the server has a lower number than an acknowledged one, the writes between are lost.
        void stored(long number) {
            if (number < acknowledged) {
                lost += acknowledged - number;
                acknowledged = number;
            }
        }

        void fail(Exception error) {
            failed++;
            tell(" error=\"" + error.getMessage() + "\"");
        }

        private void tell(String more) {
            told = System.nanoTime();
            System.out.printf(Locale.ROOT, "time=%.1f ok=%d acknowledged=%d lost=%d gap=%.2f longest=%.2f%s%n",
                (told - begun) / 1e9, ok, acknowledged, lost, gap, longest, more);
            gap = 0;
        }

        void end() {
            System.out.printf(Locale.ROOT, "end ok=%d failed=%d lost=%d longest=%.2f%n", ok, failed, lost, longest);
        }
    }
}
