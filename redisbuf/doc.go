// Package redisbuf moves large Redis values directly between the socket and the caller's memory.
//
// A [Client] is made from an existing go-redis client, and has separate connections. Use the
// go-redis client for small values, and the Client for values of some kilobytes and more. The
// package implements a connection pool, a handshake, retries and a pipeline, because go-redis does
// not give access to its connections.
//
// For small values of many goroutines, go-redis has AutoPipeline since v9.22.0. It sends the
// commands of several goroutines together. It is experimental, and a redis.Ring does not have it.
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
// A call that returns no error has read exactly a value that the key had, or has set the key. If
// the error is a reply of the server, functions of go-redis such as redis.HasErrorPrefix can test
// it. A call is retried as often as go-redis would retry it, if that is safe. Two kinds of calls
// are not retried: calls on a [Conn], and calls that have used the caller's reader or writer. After
// a [SentError] it is unknown whether the value was set.
//
// # Timeouts
//
// The timeouts are go-redis' DialTimeout, ReadTimeout and WriteTimeout. The last two apply to each
// read and write, and may take a quarter longer. A long value may take longer than a timeout, as
// long as its bytes arrive.
//
// A call ends with its second timeout, even if go-redis would retry more often. A server that does
// not answer therefore delays a call by at most two timeouts and the pause before a retry. A
// [Pipeline] and an MGet may use several servers, and each server may delay them for that long. The
// time that a call waits for a connection or for other calls (see [MaxConns] and [MaxInFlight]) is
// not included. When go-redis itself queries a Sentinel or the topology of a cluster, go-redis' own
// retries apply.
package redisbuf
