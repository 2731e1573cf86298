// Package redisbuf moves large Redis values directly between the socket and the caller's memory.
//
// A [Client] is made from the go-redis client that a program already has. Small values stay with
// that client, and values of some kilobytes and more use the Client's connections. The package is
// large because go-redis does not lend its connections. In addition to a type for each command, the
// package has a pool, a handshake, retries and a pipeline. When a connection ends, all of these
// must know which commands a server may have executed.
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
// A call borrows its arguments until it returns; a [Pipeline] borrows them until Exec returns. The
// blocks that GetChain adds to a chain belong to the chain, whose owner releases them.
//
// # Errors
//
// A call that returns no error has read exactly a value that the key had, or has set the key.
// go-redis' functions can test replies that are errors. Calls that are safe to retry are retried as
// often as go-redis would retry them. There are two exceptions: calls on a [Conn], and calls whose
// reader was read from or whose writer was written to. After a [SentError] it is unknown whether
// the value was set.
package redisbuf
