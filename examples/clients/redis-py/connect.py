"""How to connect to a Redis of Causeway."""

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ReadOnlyError
from redis.retry import Retry


# A client that serves again moments after a failover. The options:
# https://redis.io/docs/latest/develop/clients/redis-py/produsage
def connect(host: str, port: int, password: str | None) -> redis.Redis:
    return redis.Redis(
        # The Service, as in cache.shop.svc. It leads to the master, whichever node that is.
        host=host,
        port=port,
        password=password,
        # A master that hangs still accepts connections, and answers nothing. The default waits for it for 5 s. After a
        # timeout the client closes the connection, so it needs neither keepalive nor TCP_USER_TIMEOUT.
        socket_connect_timeout=1,
        socket_timeout=1,
        # While no master serves, the Service refuses connections at once. 10 retries (the default), up to half a second
        # apart, last for some seconds. A retry may execute a command twice: its answer may have been lost. Give
        # retries=0 where that does harm.
        retry=Retry(ExponentialWithJitterBackoff(base=0.01, cap=0.5), retries=10),
        # A master that was replaced is a replica, and refuses writes. The retry uses a new connection.
        retry_on_error=[ReadOnlyError],
        # A connection that was idle for longer is tried before it is used.
        health_check_interval=10,
    )
