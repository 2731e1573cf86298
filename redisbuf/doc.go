// Package redisbuf moves large Redis values directly between the socket and the caller's memory.
//
// [New] makes a [Client] from an existing go-redis client. The Client makes its own connections,
// because go-redis does not give access to its connections. Use the go-redis client for small
// values, and the Client for values of some kilobytes and more.
//
// If many goroutines read or set small values, go-redis v9.22.0 and later can send their commands
// together (AutoPipeline). AutoPipeline is experimental, and a redis.Ring does not have it.
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
// owner of a chain releases the blocks that GetChain adds to it.
//
// # Errors
//
// A read without an error has read the whole value, or range, and all bytes are from one version of
// the value. After a set without an error, the key is set. After a [SentError] it is unknown
// whether the key was set. go-redis functions such as redis.HasErrorPrefix can test an error reply
// from the server.
//
// The Client retries a call as often as go-redis would, if a retry is safe. It does not retry calls
// on a [Conn], or calls that have used the caller's reader or writer.
//
// # Timeouts
//
// The DialTimeout, ReadTimeout and WriteTimeout of the go-redis client apply. The ReadTimeout
// applies to each read from a connection, and the WriteTimeout to each write. A read or write may
// last up to a quarter longer than its timeout. The transfer of a long value takes many reads or
// writes, and may last longer than the timeout.
//
// A call fails at its second timeout, even if go-redis would retry it more often. A server that
// does not answer therefore delays a call by at most two timeouts and the pause before a retry. A
// [Pipeline] or an MGet with several servers may have such a delay for each server. The time that a
// call waits for a connection or for other calls ([MaxConns] and [MaxInFlight]) is extra. If
// go-redis itself queries a Sentinel or the topology of a cluster, its own retries apply.
//
// A quarter of the code connects to the server of a key, because go-redis does not give away its
// connections: client.go, node.go, dial.go, failover.go and call.go.
package redisbuf
