// Package redisbuf moves large Redis values directly between the socket and the caller's memory.
//
// [New] makes a [Client] from an existing go-redis client. The Client makes its own connections.
// Use the go-redis client for small values, and the Client for values of some kilobytes and more.
// The package has its own connection pool, handshake, retries and pipeline, because go-redis does
// not give other packages access to its connections.
//
// If many goroutines read or set small values, go-redis v9.22.0 and later can send the commands of
// several goroutines together (AutoPipeline). AutoPipeline is experimental, and a redis.Ring does
// not have it.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	c, err := redisbuf.New(rdb)
//	...
//	n, err := c.GetToBuffer(ctx, "key", buf)                          // into memory that you have
//	err = c.GetChain(ctx, "key", &chain, 32<<20)                      // into pooled blocks
//	n64, err := c.GetTo(ctx, "key", conn)                             // from socket to socket
//	err = c.SetFromBuffer(ctx, "key", buf, redisbuf.Expire(time.Hour)) // in one writev
//	err = c.SetFile(ctx, "key", file)                                 // by sendfile
//
// # Ownership
//
// A call borrows its arguments until it returns. A [Pipeline] borrows them until Exec returns. The
// blocks that GetChain adds to a chain belong to the chain. The owner of the chain releases them.
//
// # Errors
//
// If a call that reads returns no error, it has read the value, or the range, completely, and all
// bytes are from one version of the value. If a call that sets a key returns no error, the key was
// set. After a [SentError] it is unknown whether the key was set. If the error is an error reply
// from the server, go-redis functions such as redis.HasErrorPrefix can test it.
//
// The Client retries a call as often as go-redis would, if a retry is safe. It does not retry calls
// on a [Conn], or calls that have used the caller's reader or writer.
//
// # Timeouts
//
// The timeouts are the DialTimeout, ReadTimeout and WriteTimeout of the go-redis client. The
// ReadTimeout applies to each read from a connection, and the WriteTimeout to each write. A read or
// write may last up to a quarter longer than its timeout. A long value needs many reads or writes,
// so its transfer may last longer than the timeout.
//
// A call fails at its second timeout, even if go-redis would retry it more often. A server that
// does not answer therefore delays a call by at most two timeouts and the pause before a retry. A
// [Pipeline] or an MGet may use several servers, and each server may cause such a delay. The time
// that a call waits for a connection or for other calls (see [MaxConns] and [MaxInFlight]) is not
// included. When go-redis itself queries a Sentinel or the topology of a cluster, go-redis' own
// retries apply.
package redisbuf
